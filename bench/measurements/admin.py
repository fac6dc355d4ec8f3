"""How long the pages of the admin take with a million tasks in the database."""

import sqlite3
from contextlib import closing
from urllib.parse import quote

from bench import asking, processes
from bench.findings import Finding, spread
from bench.service import Service, in_django
from bench.subjects import Subjects

_TASKS = 1_000_000
_SAMPLES = 9
_CEILING_MS = 200.0
_LISTS = (
    *("", "?status=completed", "?status=failed", "?status=queued", "?policy=resume", "?policy=retry", "?age=day"),
    *("?q=task_0000", "?q=nowhere", "?status=failed&policy=resume"),
)
_TABLES = ("taskevent", "response", "taskinput", "idempotencykey", "snapshot", "journalentry", "statistic")


def measure(subjects: Subjects) -> list[Finding]:
    """Milliseconds until a page is there: of each the median of some requests, of all the slowest.

    The processor time of the web server is told as well: on a machine that others use it is the better figure.
    """
    service = subjects.service
    filled = in_django(service.data_dir, "many_tasks", f"fill({_TASKS})")
    service.empty_log()
    with closing(sqlite3.connect(service.database, timeout=20)) as connection:
        (client,) = connection.execute("SELECT id FROM clients WHERE name = 'second'").fetchone()
        (last,) = connection.execute("SELECT id FROM tasks ORDER BY id LIMIT 1 OFFSET 500000").fetchone()
    session = in_django(service.data_dir, "many_tasks", "sign_in('bench')")["session"]
    narrowed = (f"?client={client}", f"?client={client}&status=cancelled", f"?older_than={quote(last)}")
    lists = [f"/admin/tasks_app/task/{query}" for query in (*_LISTS, *narrowed)]
    tables = [f"/admin/tasks_app/{table}/" for table in _TABLES]
    others = [
        "/admin/",
        "/admin/clients_app/client/",
        "/admin/lmsp_site/auditentry/",
        f"/admin/tasks_app/task/{last}/change/",
    ]
    took = {path: _times(service, session, path) for path in (*lists, *tables, *others)}
    slowest = max(took, key=lambda path: took[path]["median"])
    return [
        Finding(
            "admin_pages",
            f"pages of the admin, {filled['tasks']:,} tasks",
            took[slowest]["median"],
            "ms",
            _CEILING_MS,
            is_ceiling=True,
            columns=(f"{len(took)} pages", f"of CPU: {max(page['cpu'] for page in took.values()):.0f} ms", slowest),
            detail={"tasks": filled["tasks"], "pages": took},
        )
    ]


def _times(service: Service, session: str, path: str) -> dict[str, float]:
    before = _cpu(service)
    taken = asking.times(service.address, path, {"Cookie": f"sessionid={session}"}, _SAMPLES)
    return {**spread(taken, 1), "cpu": round((_cpu(service) - before) * 1000 / _SAMPLES, 1)}


def _cpu(service: Service) -> float:
    return processes.by_role(service.processes(), "cpu")["web"]
