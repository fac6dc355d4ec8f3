"""Apply the retention now."""

from typing import Any

from lmsp_site.management.base import ServiceCommand
from tasks_app import retention


class Command(ServiceCommand):
    """``purge_tasks``: delete finished tasks that are older than the retention period."""

    help = "Delete finished tasks older than retention_days, expired idempotency keys and pairings."

    def run(self, **options: Any) -> dict[str, Any]:
        """Purge."""
        return retention.purge()
