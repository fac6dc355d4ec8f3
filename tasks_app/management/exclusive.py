"""Being alone on the data directory, for commands that must be."""

from django.conf import settings
from django.core.management.base import CommandError

from lmsp_site import supervisor
from tasks_app import ownership


def hold_the_data_directory(*, advice: str = "", workers_advice: str = "Stop them first.") -> None:
    """Keep every ``serve`` out until this process ends, and see that nobody else is in.

    A task without an owner is left over only then: beside a worker it may be claimed at any moment.

    Raises:
        CommandError: a service or a worker runs; the advice stands behind what is said of it.
    """
    try:
        supervisor.hold(settings.LMSP.run_dir / "serve.lock")
    except supervisor.AlreadyServedError as refusal:
        raise CommandError(f"{refusal} {advice}".strip()) from None
    if workers := ownership.living():
        raise CommandError(f"{len(workers)} workers run on this data directory. {workers_advice}")
