"""What a job of the runner does: claim the best task there is, run it, and the next, until none is left."""

import time
from contextlib import suppress

from django.conf import settings

from lmsp_site.errors import ProtocolError
from models_app import catalog, verifying
from models_app.engines.base import EngineAddress, ModelSpec
from models_app.engines.client import EngineDied, EngineUnavailable, HostClient, ModelLoadFailed
from models_app.models import LanguageModel
from tasks_app import lifecycle, ownership, queue, snapshot, stalling, storage
from tasks_app.attempt import Attempt, load_engine, resume_point
from tasks_app.lifecycle import Run
from tasks_app.models import Task
from tasks_app.states import Status

_LOOK_SECONDS = 0.02
_ENGINE_PATIENCE_SECONDS = 30.0  # For a host that is being restarted.
# For an engine that dies while it loads, perhaps again and again, before a resume is claimed in spite of it.
_DYING_SECONDS = 5.0


def run_claimable() -> int:
    """Claim and run tasks, best first, until there is nothing to claim; return how many were run."""
    done = 0
    while not queue.stopping() and (attempt := _claim_next()):
        attempt.execute()
        done += 1
    return done


def _claim_next() -> Attempt | None:
    host = HostClient(settings.LMSP.run_dir)
    stalling.beat()
    while not queue.stopping() and (candidate := Task.objects.select_related("response").next_claimable()):
        attempt = _claim(candidate, host)
        if attempt:
            return attempt
    return None


def _claim(candidate: Task, host: HostClient) -> Attempt | None:
    """Claim `candidate`; ``None`` when another worker was faster, or when it could only be failed."""
    refusal: ProtocolError | ModelLoadFailed | None = None
    exact = False
    spec = engine = None
    progress = snapshot.load(candidate.id)
    try:
        model = catalog.find(candidate.model)
        spec = catalog.engine_spec(model)
        if candidate.status == Status.RUNNING:
            # Its first event says whether it resumes exactly, so the engine has to be known by then.
            engine = _engine_of_resume(host, model, spec)
            exact = progress is not None and _is_exact(progress, engine)
        elif verifying.is_unchanged(model):
            engine = host.find(spec.key)
        # Otherwise the attempt reads its files before anything is decoded, and shows that it does.
    except (EngineUnavailable, EngineDied):
        if queue.stopping():
            return None
        # The attempt waits for it, and shows that it does.
    except (ProtocolError, ModelLoadFailed) as error:
        refusal = error
    # Before it holds anything: it may have been idle for hours.
    ownership.beat()
    run = lifecycle.claim(
        candidate, ownership.own_name(), queue.current_job_id(), loaded=engine is not None, exact=exact
    )
    if run is None:
        return None
    if spec is None or refusal:
        code = (refusal and refusal.code) or "model_load_failed"
        _refuse(run, code, str(refusal))
        return None
    return Attempt(run, candidate, host, spec, progress, engine)


def _refuse(run: Run, code: str, message: str) -> None:
    """Fail what was claimed in vain, however long that takes: a task that its living owner forgot would never end."""
    log = {"task": run.task_id, "attempt": run.attempt}
    with suppress(storage.Stopping):  # Left for the next start.
        storage.persist(lambda: lifecycle.fail(run.task_id, code, message, attempt=run.attempt), log)


def _is_exact(progress: snapshot.Progress, address: EngineAddress) -> bool:
    """Tell whether `address` decodes the journal as it was decoded first; without tokens there is nothing to repeat."""
    point = resume_point(progress)
    return point is None or (progress.fingerprint == address.fingerprint and point.fits(address.slots))


def _engine_of_resume(host: HostClient, model: LanguageModel, spec: ModelSpec) -> EngineAddress:
    deadline = time.monotonic() + _ENGINE_PATIENCE_SECONDS
    while True:
        try:
            return load_engine(host, model, spec, _show_life, _show_life, _show_life)
        except (EngineUnavailable, EngineDied) as error:
            now = time.monotonic()
            if queue.stopping() or now > deadline:
                raise
            if isinstance(error, EngineDied):
                deadline = min(deadline, now + _DYING_SECONDS)
            stalling.beat()
            time.sleep(_LOOK_SECONDS)


def _show_life(_progress: float | str | None) -> None:
    stalling.beat()
