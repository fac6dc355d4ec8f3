"""Running one attempt of a task: what a job of the runner does."""

import hashlib
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from django.conf import settings
from django.db import DatabaseError

from lmsp_site.errors import ProtocolError, storage_error
from models_app import catalog, chat
from models_app.engines.base import EngineAddress, GenerateRequest, ModelSpec, Resume
from models_app.engines.client import (
    EngineDied,
    EngineUnavailable,
    Generation,
    GenerationFailed,
    HostClient,
    ModelLoadFailed,
)
from models_app.engines.messages import Admitted, Finished, Progress, Replayed, Tokens
from models_app.engines.sampling import SamplingParams
from tasks_app import lifecycle, ownership, queue, responses, snapshot, submission
from tasks_app.lifecycle import Fenced, Orphan, Run
from tasks_app.models import Task
from tasks_app.output import Output
from tasks_app.states import CLAIMED, Status

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 0.02  # While the engine is silent: how soon a cancel is seen.
_PROGRESS_SECONDS = 0.5
_ENGINE_PATIENCE_SECONDS = 30.0  # For a host that is being restarted.
_MOST_DEATHS = 3  # Of an engine that dies while it loads, before a resume is claimed in spite of it.
_LOST_WHILE_LOADING = frozenset({"engine_died", "unloaded"})
_STORAGE_RETRY_SECONDS = 0.25
_LONGEST_STORAGE_RETRY_SECONDS = 5.0


class _Stopping(Exception):
    """The service is going down; the task stays as it is, for the next start's recovery."""


def run_claimable() -> int:
    """Claim and run tasks, best first, until there is nothing to claim; return how many were run."""
    done = 0
    queue.beat()
    while not queue.stopping() and (attempt := _claim_next()):
        attempt.execute()
        done += 1
    return done


def _claim_next() -> "_Attempt | None":
    host = HostClient(settings.LMSP.run_dir)
    while not queue.stopping() and (candidate := Task.objects.select_related("response").next_claimable()):
        attempt = _claim(candidate, host)
        if attempt:
            return attempt
    return None


def _claim(candidate: Task, host: HostClient) -> "_Attempt | None":
    """Claim `candidate`; ``None`` when another worker was faster, or when it could only be failed."""
    refusal: ProtocolError | ModelLoadFailed | None = None
    loaded = exact = False
    spec = None
    progress = snapshot.load(candidate.id)
    try:
        spec = catalog.engine_spec(catalog.find(candidate.model))
        if candidate.status == Status.RUNNING:
            # Its first event says whether it resumes exactly, so the engine has to be known by then.
            address = _engine_of_resume(host, spec)
            exact = progress is not None and progress.fingerprint in ("", address.fingerprint)
        else:
            loaded = host.find(spec.key) is not None
    except (EngineUnavailable, EngineDied):
        if queue.stopping():
            return None
        # The attempt waits for it, and shows that it does.
    except (ProtocolError, ModelLoadFailed) as error:
        refusal = error
    run = lifecycle.claim(candidate, ownership.own_name(), queue.current_job_id(), loaded=loaded, exact=exact)
    if run is None:
        return None
    if spec is None or refusal:
        code = (refusal and refusal.code) or "model_load_failed"
        lifecycle.fail(run.task_id, code, str(refusal), attempt=run.attempt)
        return None
    return _Attempt(run, candidate, host, spec, progress)


def _engine_of_resume(host: HostClient, spec: ModelSpec) -> EngineAddress:
    deadline = time.monotonic() + _ENGINE_PATIENCE_SECONDS
    deaths = 0
    while True:
        try:
            return _load(host, spec, lambda _: queue.beat())
        except (EngineUnavailable, EngineDied) as error:
            deaths += isinstance(error, EngineDied)
            if queue.stopping() or deaths >= _MOST_DEATHS or time.monotonic() > deadline:
                raise
            queue.beat()
            time.sleep(_LOOK_SECONDS)


def _load(host: HostClient, spec: ModelSpec, while_waiting: Callable[[float | None], None]) -> EngineAddress:
    """Have the engine loaded. One that is killed while it loads has died, and says nothing about its model."""
    try:
        return host.ensure_loaded(spec, while_waiting=while_waiting)
    except ModelLoadFailed as error:
        if error.code in _LOST_WHILE_LOADING:
            raise EngineDied(str(error)) from error
        raise


class _Attempt:
    """One claim of one task, from the engine's first sign to the terminal event."""

    def __init__(
        self, run: Run, task: Task, host: HostClient, spec: ModelSpec, progress: snapshot.Progress | None
    ) -> None:
        self._run = run
        self._task = task
        self._host = host
        self._spec = spec
        self._progress = progress
        self._position = len(progress.tokens) if progress else 0
        self._output = Output.of(task.id) if task.status == Status.RUNNING else Output()
        self._shown = 0.0
        self._log = {"task": task.id, "attempt": run.attempt}

    def execute(self) -> None:
        """Run the attempt to whatever end it has; a task is never left without one that could have it."""
        try:
            logger.info("attempt started", extra=self._log)
            self._generate(self._engine())
            logger.info("attempt completed", extra=self._log | {"output_tokens": self._position})
        except Fenced:
            self._when_fenced()
        except _Stopping:
            logger.info("attempt left for the next start", extra=self._log)
        except (ModelLoadFailed, GenerationFailed) as error:
            self._fail(error.code, str(error))
        except ProtocolError as error:
            self._fail(error.code or "invalid_request", error.message)
        except (EngineDied, EngineUnavailable) as error:
            if queue.stopping():
                logger.info("attempt left for the next start", extra=self._log)
            else:
                logger.warning("engine lost", extra=self._log | {"error": str(error)})
                self._persist(self._apply_restart_policy)
        except Exception:
            logger.exception("attempt failed", extra=self._log)
            self._fail("internal_error", "The service failed to run this task; its log says why.")

    def _engine(self) -> EngineAddress:
        """Return the loaded engine, waiting for a host that is being restarted."""
        deadline = time.monotonic() + _ENGINE_PATIENCE_SECONDS
        while True:
            try:
                address = _load(self._host, self._spec, self._while_loading)
                break
            except EngineUnavailable:
                if time.monotonic() > deadline:
                    raise
                self._look()
                time.sleep(_LOOK_SECONDS)
        self._persist(lambda: lifecycle.start(self._run))
        return address

    def _while_loading(self, done: float | None) -> None:
        self._look()
        self._show({"phase": "loading", "done": round(done or 0, 3), "total": 1})

    def _generate(self, address: EngineAddress) -> None:
        with Generation(address, self._request()) as generation:
            slot = None
            while True:
                message = generation.next(_LOOK_SECONDS)
                if message is None or isinstance(message, Progress):
                    self._look()
                    if message:
                        self._show({"phase": message.phase, "done": message.done, "total": message.total})
                elif isinstance(message, Admitted):
                    slot = message.slot
                elif isinstance(message, Replayed):
                    self._check_replay(message)
                elif isinstance(message, (Tokens, Finished)):
                    if slot is not None:
                        # Before the first tokens of this run, so that no journal is without its slot.
                        self._persist(partial(self._note_run, slot, address.fingerprint))
                        slot = None
                    if isinstance(message, Finished):
                        self._finish(message)
                        return
                    self._append(message)
                if queue.stopping() and self._task.on_restart == "resume":
                    raise _Stopping

    def _request(self) -> GenerateRequest:
        request = responses.DEFAULTS | responses.of(self._task).request
        progress = self._progress
        if progress is None:
            # A row that came without its snapshot; what was asked is enough to start from.
            model = catalog.find(self._task.model)
            prompt, seed = chat.prompt_tokens(model, submission.messages_of(request)), request["seed"]
        else:
            prompt, seed = progress.prompt, progress.seed
        resume = None
        if progress and progress.tokens and progress.slot is not None:
            resume = Resume(slot=progress.slot, tokens=progress.tokens, rows=progress.rows)
        return GenerateRequest(
            prompt=prompt,
            sampling=SamplingParams(
                temperature=request["temperature"],
                top_p=request["top_p"],
                presence_penalty=request["presence_penalty"],
                frequency_penalty=request["frequency_penalty"],
                seed=seed,
            ),
            max_tokens=request["max_output_tokens"],
            stop=request["stop"],
            resume=resume,
        )

    def _note_run(self, slot: int, fingerprint: str) -> None:
        if self._progress is None or self._progress.slot != slot or self._progress.fingerprint != fingerprint:
            snapshot.note_run(self._run.task_id, slot, fingerprint)

    def _append(self, new: Tokens) -> None:
        events = self._output.write(new.text) if new.text else []
        self._persist(lambda: lifecycle.append(self._run, self._position, new.tokens, new.rows, events))
        self._position += len(new.tokens)

    def _finish(self, last: Finished) -> None:
        if last.reason == "cancelled":
            raise Fenced(self._run.task_id)
        reason = "max_output_tokens" if last.reason == "length" else None
        closing = self._output.write(last.text)
        closing += self._output.close("incomplete" if reason else "completed")
        self._persist(
            lambda: lifecycle.complete(self._run, self._position, last.tokens, last.rows, closing, self._output, reason)
        )
        self._position += len(last.tokens)

    def _check_replay(self, replayed: Replayed) -> None:
        text = self._output.text
        if replayed.text_sha256 != hashlib.sha256(text.encode()).hexdigest():
            logger.warning(
                "the journal and the log tell different texts",
                extra=self._log | {"log_length": len(text), "journal_length": replayed.text_length},
            )

    def _look(self) -> None:
        """See, at most every few milliseconds, whether this run should go on."""
        if queue.stopping() and self._task.on_restart == "resume":
            raise _Stopping
        held = Task.objects.filter(
            pk=self._run.task_id, attempt=self._run.attempt, status__in=(Status.LOADING, Status.RUNNING)
        )
        if not held.exists():
            raise Fenced(self._run.task_id)

    def _show(self, progress: dict[str, Any]) -> None:
        if time.monotonic() - self._shown > _PROGRESS_SECONDS:
            self._shown = time.monotonic()
            lifecycle.note_progress(self._run, progress)

    def _when_fenced(self) -> None:
        """The engine has been hung up on by now: if it was a cancel, nothing computes any more."""
        cancelled = self._persist(lambda: lifecycle.finish_cancel(self._run.task_id, self._run.attempt))
        logger.info("attempt cancelled" if cancelled else "attempt fenced off", extra=self._log)

    def _fail(self, code: str, message: str) -> None:
        logger.warning("attempt failed", extra=self._log | {"code": code, "error": message})
        if not self._persist(lambda: lifecycle.fail(self._run.task_id, code, message, attempt=self._run.attempt)):
            self._when_fenced()

    def _apply_restart_policy(self) -> None:
        held = Task.objects.filter(pk=self._run.task_id, attempt=self._run.attempt, status__in=CLAIMED)
        orphans = [Orphan(*row) for row in held.values_list(*Orphan._fields)]
        lifecycle.apply_restart_policy(orphans, "engine_died", "The engine ended before this task had finished.")

    def _persist(self, write: Callable[[], Any]) -> Any:
        """Make a write happen, however long the disk is full or the database locked.

        Each of these writes is guarded, so that repeating one whose success is in doubt does no harm.
        """
        delay = _STORAGE_RETRY_SECONDS
        while True:
            try:
                return write()
            except DatabaseError as error:
                fault = storage_error(error)
                if fault is None:
                    raise
                logger.warning("waiting for the storage", extra=self._log | {"error": str(error)})
                if queue.stopping():
                    raise _Stopping from error
                time.sleep(delay)
                delay = min(2 * delay, _LONGEST_STORAGE_RETRY_SECONDS)
