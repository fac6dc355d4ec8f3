"""One look at the service for everybody who has the dashboard open; none while nobody has."""

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lmsp_site.database_threads import DatabaseThreads
from tasks_app.board import history, state

logger = logging.getLogger(__name__)

TICK_SECONDS = 1.0
_STANDING_TICKS, _PLOTS_TICKS = 3, 30
_RATE_SECONDS = 5.0

# Looks wait for engines and for the lock of the database; readers of logs are not to wait for them.
looks = DatabaseThreads(1, "board")

Frame = dict[str, Any]


class Board:
    """The looks of one process, shared by all of its sockets: each gets the latest frames, and skips what it missed."""

    def __init__(self) -> None:
        self._watchers: set[asyncio.Event] = set()
        self._looking: asyncio.Task[None] | None = None
        self._rates: dict[str, tuple[float, int]] = {}
        self.frames: dict[str, Frame] = {}

    @contextmanager
    def open(self) -> Iterator[asyncio.Event]:
        """Yield an event that is set whenever there are new frames, for as long as the body runs."""
        changed = asyncio.Event()
        self._watchers.add(changed)
        if self._looking is None:
            self._looking = asyncio.ensure_future(self._look_again_and_again())
        else:
            changed.set()
        try:
            yield changed
        finally:
            self._watchers.discard(changed)
            if not self._watchers and self._looking is not None:
                self._looking.cancel()
                self._looking = None
                self.frames = {}

    async def _look_again_and_again(self) -> None:
        tick = 0
        while True:
            began = time.monotonic()
            for name, every, look in (
                ("present", 1, state.present),
                ("standing", _STANDING_TICKS, state.standing),
                ("plots", _PLOTS_TICKS, history.plots),
            ):
                if tick % every == 0:
                    await self._look(name, look)
            tick += 1
            await asyncio.sleep(max(0.1, TICK_SECONDS - (time.monotonic() - began)))

    async def _look(self, name: str, look: Any) -> None:
        try:
            found = await looks.run(look)
        except Exception as error:  # noqa: BLE001 - the next look may succeed: the database is locked, an engine hangs
            logger.info("dashboard not updated", extra={"part": name, "error": str(error)})
            found = {"fault": "This could not be found out just now; it is tried again."}
        if name == "present" and "running" in found:
            self._measure(found["running"])
        if name == "plots" and "failures" in found:
            found["failures"] = state.failures(found["failures"])
        self.frames[name] = {"type": name, "number": self.frames.get(name, {}).get("number", 0) + 1, **found}
        for changed in self._watchers:
            changed.set()

    def _measure(self, running: list[dict[str, Any]]) -> None:
        """Replace the mean since a task's start by how fast it is now."""
        now = time.monotonic()
        seen: dict[str, tuple[float, int]] = {}
        for task in running:
            since, tokens = seen[task["id"]] = self._rates.get(task["id"], (now, task["output_tokens"]))
            if now > since:
                task["tokens_per_second"] = round(max(0, task["output_tokens"] - tokens) / (now - since), 1)
            # Measured over a while: a single second holds few tokens.
            if now - since > _RATE_SECONDS:
                seen[task["id"]] = (now, task["output_tokens"])
        self._rates = seen


board = Board()
