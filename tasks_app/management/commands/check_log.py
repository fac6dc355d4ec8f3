"""Audit the database."""

from typing import Any

from django.conf import settings

from lmsp_site.management.base import ServiceCommand
from tasks_app import audit


class Command(ServiceCommand):
    """``check_log``: every invariant over the whole database; exit status 1 on a violation."""

    help = "Audit every task's log against the protocol's rules; the service may run meanwhile."

    def run(self, **options: Any) -> dict[str, Any]:
        """Audit."""
        findings = audit.audit(settings.LMSP.database)
        self.exit_status = 1 if findings["violations"] else 0
        return findings

    def describe(self, answer: dict[str, Any]) -> None:
        """List the violations."""
        for violation in answer["violations"]:
            self.stdout.write(audit.told(violation))
        self.stdout.write(f"{answer['tasks']} tasks, {answer['events']} events, {len(answer['violations'])} violations")
