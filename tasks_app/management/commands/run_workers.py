"""Run the worker processes; ``serve`` starts this as one of its children."""

from typing import Any

from django.core.management.base import BaseCommand

from tasks_app import ownership, queue


class Command(BaseCommand):
    """``run_workers``: django-q2's cluster, with as many workers as tasks may run at once."""

    requires_system_checks = ()
    help = "Run the workers that claim and run tasks, until SIGTERM."

    def handle(self, *args: Any, **options: Any) -> None:
        """Run until told to stop."""
        queue.schedule("retention", "tasks_app.retention.purge_on_schedule", minutes=5)
        queue.schedule("models", "tasks_app.model_checks.verify_on_schedule", minutes=5)
        # Also an idle worker can be proven alive: nobody recovers beside it what it may claim the next moment.
        queue.run_cluster(in_each_worker=ownership.own_name)
