"""One attempt of a task: from its claim to whatever end it has."""

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from typing import Any, TypeVar

from django.conf import settings
from django.db import transaction

from lmsp_site.errors import InvalidRequest, ProtocolError
from models_app import catalog, loading, verifying
from models_app.engines.base import EngineAddress, GenerateRequest, ModelSpec, Resume
from models_app.engines.client import (
    EngineDied,
    EngineUnavailable,
    Generation,
    GenerationFailed,
    HostClient,
    ModelLoadFailed,
)
from models_app.engines.loading_rules import LoadingRules
from models_app.engines.messages import Admitted, Finished, Progress, Replayed, Tokens
from models_app.engines.sampling import SamplingParams
from models_app.models import LanguageModel
from tasks_app import (
    checkpoints,
    conversation,
    inputs,
    lifecycle,
    ownership,
    queue,
    reading,
    responses,
    snapshot,
    statistics,
    storage,
    tools,
    wakeup,
)
from tasks_app.lifecycle import Fenced, Orphan, Run
from tasks_app.models import Task
from tasks_app.output import Output
from tasks_app.run_times import RunTimes
from tasks_app.states import CLAIMED, Status
from tasks_app.storage import Stopping

logger = logging.getLogger(__name__)
T = TypeVar("T")

_LOOK_SECONDS = 0.02  # While an engine is loaded: how soon a cancel is seen.
# While one generates a cancel wakes its worker; that can be lost, and this is how late the cancel is seen then.
_LOOK_ANYWAY_SECONDS = 0.25
_PROGRESS_SECONDS = 0.5
_ENGINE_PATIENCE_SECONDS = 30.0  # For a host that is being restarted.
_LOST_WHILE_LOADING = frozenset({"engine_died", "unloaded"})


class _EngineSilent(Exception):
    """The engine lives, has taken this request, and says nothing of it any more."""


class Attempt:
    """One claim of one task, from the engine's first sign to the terminal event."""

    def __init__(
        self,
        run: Run,
        task: Task,
        host: HostClient,
        spec: ModelSpec,
        progress: snapshot.Progress | None,
        engine: EngineAddress | None = None,
    ) -> None:
        self._engine = engine
        self._run = run
        self._task = task
        self._host = host
        self._spec = spec
        self._progress = progress
        self._position = len(progress.tokens) if progress else 0
        request = responses.DEFAULTS | responses.of(task).request
        parser = reading.parser(request)
        self._ends_by_itself = tools.must_call(request)
        self._output = Output.of(task.id, parser) if task.status == Status.RUNNING else Output(task.id, parser)
        self._place: tuple[int, str] | None = None
        self._admitted = False
        self._shown = 0.0
        self._times = RunTimes(task.model, resumed=task.status == Status.RUNNING)
        self._log = {"task": task.id, "attempt": run.attempt}

    def execute(self) -> None:
        """Run the attempt to whatever end it has; a task is never left without one that could have it."""
        try:
            self._execute()
        except Stopping:
            logger.info("attempt left for the next start", extra=self._log)

    def _execute(self) -> None:
        try:
            logger.info("attempt started", extra=self._log)
            self._generate(*self._begin())
            logger.info("attempt completed", extra=self._log | {"output_tokens": self._position})
        except Fenced:
            self._when_fenced()
        except Stopping:
            raise
        except (ModelLoadFailed, GenerationFailed) as error:
            self._fail(error.code, str(error))
        except ProtocolError as error:
            self._fail(error.code or "invalid_request", error.message)
        except (EngineDied, EngineUnavailable) as error:
            if queue.stopping():
                raise Stopping from error
            logger.warning("engine lost", extra=self._log | {"error": str(error)})
            self._let_go("engine_died", "The engine ended before this task had finished.")
        except _EngineSilent as silence:
            logger.error("no progress", extra=self._log | {"error": str(silence)})  # noqa: TRY400
            self._let_go("engine_silent", str(silence))
        except Exception:
            logger.exception("attempt failed", extra=self._log)
            self._fail("internal_error", "The service failed to run this task; its log says why.")
        finally:
            # A run that has completed has left nothing.
            storage.unless_it_fails(partial(statistics.flush, self._times.observed), otherwise=None)

    def _begin(self) -> tuple[EngineAddress, Generation]:
        """Start the generation: at once where the engine was in memory at the claim, and still is."""
        request = self._request()
        if self._engine is not None:
            with suppress(EngineUnavailable):
                return self._engine, Generation(self._engine, request)
        deadline = time.monotonic() + _ENGINE_PATIENCE_SECONDS
        while True:
            address = self._load_engine()
            try:
                return address, Generation(address, request)
            except EngineUnavailable:
                # It was let go just before this could come to it: it had been idle for long enough.
                if time.monotonic() > deadline:
                    raise
                self._look()
                time.sleep(_LOOK_SECONDS)

    def _load_engine(self) -> EngineAddress:
        """Return the loaded engine, waiting for a host that is being restarted."""
        deadline = time.monotonic() + _ENGINE_PATIENCE_SECONDS
        while True:
            try:
                model = catalog.find(self._task.model)
                address = load_engine(
                    self._host, model, self._spec, self._while_loading, self._while_waiting, self._while_verifying
                )
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

    def _while_verifying(self, done: float) -> None:
        self._look()
        self._show({"phase": "verifying", "done": round(done, 3), "total": 1})

    def _while_waiting(self, reason: str) -> None:
        self._look()
        self._show({"phase": "waiting", "reason": reason})

    def _generate(self, address: EngineAddress, generation: Generation) -> None:
        heard = looked = time.monotonic()
        wakes = _wake_ups(ownership.own_name())
        with generation:
            generation.wake_on(wakes.fileno())
            while True:
                ownership.beat()
                message = generation.next(_LOOK_ANYWAY_SECONDS)
                now = time.monotonic()
                if message is not None:
                    heard = now
                elif self._should_be_heard():
                    _check_silence(heard)
                # Whoever writes finds out by writing.
                if (message is None and wakes.take()) or now > looked + _LOOK_ANYWAY_SECONDS:
                    looked = now
                    self._look()
                if isinstance(message, Progress):
                    self._show({"phase": message.phase, "done": message.done, "total": message.total})
                elif isinstance(message, Admitted):
                    self._admitted = True
                    self._place = (message.slot, address.fingerprint)
                elif isinstance(message, Replayed):
                    self._take_up(message)
                    self._end_if_over(generation)
                elif isinstance(message, Tokens):
                    self._append(message)
                    self._end_if_over(generation)
                elif isinstance(message, Finished):
                    self._finish(message)
                    return
                if queue.stopping() and self._task.on_restart == "resume":
                    raise Stopping

    def _should_be_heard(self) -> bool:
        """Tell whether the engine owes a word: to a resume that waits for the slot it had it owes none."""
        return self._admitted or self._progress is None or resume_point(self._progress) is None

    def _request(self) -> GenerateRequest:
        request = responses.DEFAULTS | responses.of(self._task).request
        progress = self._progress
        if progress is None:
            # A row that came without its snapshot; what was asked is enough to start from.
            model = catalog.find(self._task.model)
            said = inputs.of(self._task.id)
            if not said:
                raise InvalidRequest("What this task was asked is not known.")
            prompt, seed = conversation.turn(model, request, said).prompt, request["seed"]
            self._persist(lambda: snapshot.create(self._task, prompt, seed))
        else:
            prompt, seed = progress.prompt, progress.seed
        resume = resume_point(progress) if progress else None
        return GenerateRequest(
            prompt=prompt,
            sampling=SamplingParams(
                temperature=request["temperature"],
                top_p=request["top_p"],
                presence_penalty=request["presence_penalty"],
                frequency_penalty=request["frequency_penalty"],
                repeat_penalty=request["repetition_penalty"],
                top_k=request["top_k"],
                min_p=request["min_p"],
                logit_bias=[(int(token), bias) for token, bias in request["logit_bias"].items()],
                seed=seed,
            ),
            max_tokens=request["max_output_tokens"],
            stop=request["stop"],
            resume=resume,
            checkpoint=checkpoints.of(self._task),
            grammar=reading.grammar(request),
            marks=reading.marks(request),
            reasoning_end=reading.reasoning_end(request),
            top_logprobs=request["top_logprobs"],
        )

    def _append(self, new: Tokens) -> None:
        self._times.arrived(len(new.tokens))
        events = self._output.write(new.text, new.logprobs) if new.text or new.logprobs else []
        with self._times.commit():
            self._commit(new, lambda: lifecycle.append(self._run, self._position, new.tokens, new.rows, events))

    def _end_if_over(self, generation: Generation) -> None:
        """Have the engine stop when the rest would be left out; its last message tells how much it had computed.

        Where calls are demanded it ends by itself, after a few tokens, and always after the same ones.
        """
        if self._output.is_over and not self._ends_by_itself:
            generation.cancel()

    def _finish(self, last: Finished) -> None:
        over = self._output.is_over
        if last.reason == "cancelled" and not over:
            raise Fenced(self._run.task_id)
        self._times.arrived(len(last.tokens))
        self._times.ended()
        closing = self._output.write(last.text, last.logprobs)
        reason = "max_output_tokens" if last.reason == "length" and not self._output.is_over else None
        closing += self._output.close("incomplete" if reason else "completed")
        if self._output.has_reasoning:
            self._output.reasoning_tokens = int(last.timings.get("reasoning_tokens", 0))
        self._commit(
            last,
            lambda: lifecycle.complete(
                self._run,
                self._position,
                last.tokens,
                last.rows,
                closing,
                self._output,
                reason,
                self._times.observed,
            ),
        )
        self._times.observed.clear()

    def _commit(self, new: Tokens | Finished, write: Callable[[], None]) -> None:
        """Write tokens; with the first of a run goes where and how they are decoded, without which none is of use."""
        place = self._place

        def write_with_place() -> None:
            with transaction.atomic():
                if place and new.tokens:
                    snapshot.note_run(self._run.task_id, *place)
                write()

        self._persist(write_with_place if place else write)
        self._place = None
        self._position += len(new.tokens)

    def _take_up(self, replayed: Replayed) -> None:
        logger.info("replayed", extra=self._log | {"tokens": self._position, "from_checkpoint": replayed.restored})
        if not self._output.take_up(replayed.text):
            logger.warning(
                "the journal and the log tell different texts",
                extra=self._log | {"log_length": len(self._output.text), "journal_length": len(replayed.text)},
            )

    def _look(self) -> None:
        """See, at most every few milliseconds, whether this run should go on."""
        ownership.beat()
        if queue.stopping() and self._task.on_restart == "resume":
            raise Stopping
        held = Task.objects.filter(
            pk=self._run.task_id, attempt=self._run.attempt, status__in=(Status.LOADING, Status.RUNNING)
        )
        if not storage.unless_it_fails(held.exists, otherwise=True):
            raise Fenced(self._run.task_id)

    def _show(self, progress: dict[str, Any]) -> None:
        if time.monotonic() - self._shown > _PROGRESS_SECONDS:
            self._shown = time.monotonic()
            storage.unless_it_fails(partial(lifecycle.note_progress, self._run, progress), otherwise=None)

    def _when_fenced(self) -> None:
        """The engine has been hung up on by now: if it was a cancel, nothing computes any more."""
        cancelled = self._persist(lambda: lifecycle.finish_cancel(self._run.task_id, self._run.attempt))
        logger.info("attempt cancelled" if cancelled else "attempt fenced off", extra=self._log)

    def _fail(self, code: str, message: str) -> None:
        logger.warning("attempt failed", extra=self._log | {"code": code, "error": message})
        if not self._persist(lambda: lifecycle.fail(self._run.task_id, code, message, attempt=self._run.attempt)):
            self._when_fenced()

    def _let_go(self, code: str, message: str) -> None:
        """Apply the restart policy: this run cannot go on, and another one may."""

        def apply() -> None:
            held = Task.objects.filter(pk=self._run.task_id, attempt=self._run.attempt, status__in=CLAIMED)
            orphans = [Orphan(*row) for row in held.values_list(*Orphan._fields)]
            lifecycle.apply_restart_policy(orphans, code, message)

        self._persist(apply)

    def _persist(self, write: Callable[[], T]) -> T:
        return storage.persist(write, self._log)


def resume_point(progress: snapshot.Progress) -> Resume | None:
    """Return what the engine needs to go on from a snapshot; ``None`` where nothing was generated."""
    if not progress.tokens or progress.slot is None:
        return None
    return Resume(slot=progress.slot, tokens=progress.tokens, rows=progress.rows)


@cache
def _wake_ups(owner: str) -> wakeup.Listener:
    return wakeup.Listener.for_owner(owner)


def _check_silence(heard: float) -> None:
    patience = settings.LMSP.engine_silence
    if patience and time.monotonic() - heard > patience:
        raise _EngineSilent(f"The engine has said nothing of this task for {patience:g} s.")


def _rules() -> LoadingRules | None:
    return storage.unless_it_fails(loading.rules, otherwise=None)


def load_engine(
    host: HostClient,
    model: LanguageModel,
    spec: ModelSpec,
    while_loading: Callable[[float | None], None],
    while_waiting: Callable[[str], None],
    while_verifying: verifying.OnProgress,
) -> EngineAddress:
    """Have the engine loaded from files that are what was registered, before and after.

    Raises:
        ModelUnusable: they are not.
        EngineDied: it was killed while it loaded, which says nothing about its model.
    """
    verifying.require_intact(model, while_verifying)
    was_loaded = host.find(spec.key) is not None
    address = _ensure_loaded(host, spec, while_loading, while_waiting)
    if not verifying.is_unchanged(model):
        try:
            verifying.require_intact(model, while_verifying)
        except verifying.ModelUnusable:
            if not was_loaded:
                # Perhaps from what is there now. One that was loaded before has what was there before.
                host.unload(spec.key)
            raise
    return address


def _ensure_loaded(
    host: HostClient,
    spec: ModelSpec,
    while_loading: Callable[[float | None], None],
    while_waiting: Callable[[str], None],
) -> EngineAddress:
    try:
        return host.ensure_loaded(spec, while_waiting=while_loading, on_wait=while_waiting, rules=_rules())
    except ModelLoadFailed as error:
        if error.code in _LOST_WHILE_LOADING:
            raise EngineDied(str(error)) from error
        raise
