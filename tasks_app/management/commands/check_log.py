"""Audit the database."""

import sys
from typing import Any

from django.conf import settings

from lmsp_site.management.base import ServiceCommand
from tasks_app import audit


class Command(ServiceCommand):
    """``check_log``: every invariant over the whole database; exit status 1 on a violation."""

    help = "Audit every task's log against the protocol's rules; the service may run meanwhile."

    def handle(self, *args: Any, **options: Any) -> None:
        """Print the findings and tell by the exit status whether there were any."""
        self._violated = False
        super().handle(*args, **options)
        if self._violated:
            sys.exit(1)

    def run(self, **options: Any) -> dict[str, Any]:
        """Audit."""
        findings = audit.audit(settings.LMSP.database)
        self._violated = bool(findings["violations"])
        return findings

    def describe(self, answer: dict[str, Any]) -> None:
        """List the violations."""
        for violation in answer["violations"]:
            self.stdout.write(f"{violation['rule']}: {violation['task'] or 'database'}: {violation['detail']}")
        self.stdout.write(f"{answer['tasks']} tasks, {answer['events']} events, {len(answer['violations'])} violations")
