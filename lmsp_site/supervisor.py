"""The service as one process tree: start its processes in order, watch them, restart them, stop them.

Knows nothing of what they do, so that no fault in the applications can keep them from being stopped.
"""

import fcntl
import logging
import os
import selectors
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lmsp_site.children import Child, ChildSpec

logger = logging.getLogger(__name__)

STALL_GRACE_SECONDS = 2.0
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_READY_INTERVAL_SECONDS = 0.1
_MOMENT_TO_STOP_SECONDS = 0.5


@dataclass(frozen=True)
class Pace:
    """How the supervisor spends time, in seconds.

    Attributes:
        first_restart: how long it waits before it restarts a child that ended; doubled each time.
        longest_restart: the longest that this becomes.
        steady_after: after running for so long, a child counts as sound again.
        look: how often it asks whether a child has stalled.
    """

    first_restart: float = 0.2
    longest_restart: float = 30.0
    steady_after: float = 30.0
    look: float = 3.0


class Supervisor:
    """The processes of one service.

    Args:
        children: in the order in which they start; they stop in the opposite order.
        grace: seconds from the request to stop until what is still running is killed.
        ready: called again and again after the start until it returns True.
        stopping: called once, when nothing will be started any more and before the first child is asked to stop.
        pace: how it spends time.
    """

    def __init__(
        self,
        children: Sequence[ChildSpec],
        grace: float,
        ready: Callable[[], bool],
        stopping: Callable[[], None],
        pace: Pace | None = None,
    ) -> None:
        self._children = [Child(spec) for spec in children]
        self._grace = grace
        self._ready = ready
        self._stopping = stopping
        self._pace = pace or Pace()
        self._is_ready = False
        self._next_look = 0.0
        self._stop_requests = 0
        self._selector = selectors.DefaultSelector()

    def run(self) -> None:
        """Run the service until SIGTERM or SIGINT; a second one ends it at once."""
        with self._attending_to_signals():
            self._next_look = time.monotonic() + self._pace.look
            for child in self._children:
                self._start(child)
            while not self._stop_requests:
                self._wait(self._next_due())
                self._restart_ended()
                self._look_for_stalled()
                self._is_ready = self._is_ready or self._ready()
            self._stop()

    def _start(self, child: Child) -> None:
        try:
            child.start()
        except OSError as error:
            self._schedule_restart(child)
            logger.error("cannot start", extra={"child": child.spec.name, "reason": str(error)})  # noqa: TRY400
        else:
            logger.info("started", extra={"child": child.spec.name, "pid": child.pid})

    def _restart_ended(self) -> None:
        now = time.monotonic()
        for child in self._children:
            if child.has_ended() or (child.kill_at is not None and child.kill_at <= now):
                pid, ran = child.pid, now - child.started_at
                status = _bury(child)
                if ran >= self._pace.steady_after:
                    child.failures = 0
                delay = self._schedule_restart(child)
                logger.warning(
                    "ended and will be restarted",
                    extra={"child": child.spec.name, "pid": pid, "status": status, "seconds": round(delay, 3)},
                )
            if child.restart_at is not None and child.restart_at <= now:
                self._start(child)

    def _schedule_restart(self, child: Child) -> float:
        delay = min(self._pace.first_restart * 2.0**child.failures, self._pace.longest_restart)
        if delay < self._pace.longest_restart:
            child.failures += 1
        child.restart_at = time.monotonic() + delay
        return delay

    def _look_for_stalled(self) -> None:
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + self._pace.look
        for child in self._children:
            if child.pid and child.kill_at is None and _is_stalled(child):
                logger.warning("stalled and will be restarted", extra={"child": child.spec.name, "pid": child.pid})
                child.terminate()
                child.kill_at = now + STALL_GRACE_SECONDS

    def _next_due(self) -> float:
        times = [self._next_look]
        times += [child.restart_at for child in self._children if child.restart_at is not None]
        times += [child.kill_at for child in self._children if child.kill_at is not None]
        if not self._is_ready:
            times.append(time.monotonic() + _READY_INTERVAL_SECONDS)
        return min(times)

    def _stop(self) -> None:
        """Stop one child after the other: a slow one has nearly all of the grace, and leaves a moment to each after it.

        What a later one does for it, as the engines do for the workers, must not end before; nor what shows its last
        work, as the web server does.
        """
        logger.info("stopping", extra={"grace": self._grace})
        started = time.monotonic()
        try:
            self._stopping()
        except Exception:
            # Whoever cannot be told is stopped all the same.
            logger.exception("cannot announce the stop")
        moment = min(_MOMENT_TO_STOP_SECONDS, self._grace / len(self._children))
        for number, child in enumerate(reversed(self._children), start=1):
            child.terminate()
            self._wait_for_end([child], until=started + self._grace - moment * (len(self._children) - number))
        self._wait_for_end(self._children, until=started + self._grace)
        for child in self._children:
            if child.pid:
                logger.warning("killed", extra={"child": child.spec.name, "pid": child.pid})
                _bury(child)
        logger.info("stopped", extra={"seconds": round(time.monotonic() - started, 3)})

    def _wait_for_end(self, children: Sequence[Child], until: float) -> None:
        while True:
            for child in children:
                if child.has_ended():
                    logger.info("ended", extra={"child": child.spec.name, "pid": child.pid, "status": _bury(child)})
            if not any(child.pid for child in children) or time.monotonic() >= until or self._stop_requests > 1:
                return
            self._wait(until)

    def _wait(self, until: float) -> None:
        """Sleep until a moment comes, a child ends or a signal arrives."""
        for woken, _ in self._selector.select(max(0.0, until - time.monotonic())):
            woken.data()

    @contextmanager
    def _attending_to_signals(self) -> Iterator[None]:
        def request_stop(_signum: int, _frame: object) -> None:
            self._stop_requests += 1

        # SIGCHLD only has to wake the loop, and needs a handler of some kind for that.
        handlers = {signal.SIGCHLD: lambda _signum, _frame: None, **dict.fromkeys(_STOP_SIGNALS, request_stop)}
        if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
            del handlers[signal.SIGHUP]  # Started by nohup.
        woken, waker = socket.socketpair()
        with woken, waker, self._selector:
            woken.setblocking(False)
            waker.setblocking(False)
            self._selector.register(woken, selectors.EVENT_READ, lambda: woken.recv(4096))
            previous = {signum: signal.signal(signum, handler) for signum, handler in handlers.items()}
            previous_fd = signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
            try:
                yield
            finally:
                signal.set_wakeup_fd(previous_fd)
                for signum, handler in previous.items():
                    signal.signal(signum, handler)


class AlreadyServedError(Exception):
    """Another service runs on the same data directory; the message says which."""


def hold(lock: Path) -> None:
    """Take the lock that one service alone can hold, until this process ends.

    Raises:
        AlreadyServedError: another process holds it.
    """
    descriptor = os.open(lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        with os.fdopen(descriptor) as file:
            holder = file.read().strip() or "unknown"
        raise AlreadyServedError(f"A service runs on this data directory already: process {holder}.") from None
    os.ftruncate(descriptor, 0)
    os.write(descriptor, str(os.getpid()).encode())


def _is_stalled(child: Child) -> bool:
    try:
        return child.spec.stalled is not None and child.spec.stalled()
    except Exception:
        # A question that cannot be answered is no reason to stop what may be working.
        logger.exception("cannot tell whether it has stalled", extra={"child": child.spec.name})
        return False


def _bury(child: Child) -> str:
    status, survivors = child.bury()
    if survivors:
        logger.error("processes outlive SIGKILL", extra={"child": child.spec.name, "pids": survivors})
    return status
