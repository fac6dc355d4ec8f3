"""Looking after model files by the runner's schedule: what looks changed is read, and all of it now and then."""

from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from models_app import verifying
from models_app.models import LanguageModel
from tasks_app import queue, stalling


class _Stopping(Exception):
    """The service stops; the files are read by its next start's schedule."""


def verify_on_schedule() -> None:
    """Read the files of models that look changed, or have not been read for ``LMSP_VERIFY_HOURS``.

    Costs a stat of each file where there is none. While files are read, this worker takes no task.
    """
    for model in LanguageModel.objects.all():
        anew = _is_due(model)
        if anew or not verifying.is_unchanged(model):
            try:
                verifying.verify(model, _show_life, anew=anew)
            except _Stopping:
                return


def _is_due(model: LanguageModel) -> bool:
    hours = settings.LMSP.verify_hours
    return bool(hours) and (model.checked_at is None or model.checked_at < timezone.now() - timedelta(hours=hours))


def _show_life(_part: float) -> None:
    stalling.beat()
    if queue.stopping():
        raise _Stopping
