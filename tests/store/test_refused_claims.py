"""A task that is claimed and cannot be run, while the database is locked: it fails all the same."""

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection

from clients_app.models import Client
from models_app.engines.client import HostClient
from tasks_app import worker
from tasks_app.states import Status
from tests.store.tasks import new_task, types


def test_a_claim_of_a_model_that_is_gone_ends_when_the_lock_is_gone(client: Client, database: Path) -> None:
    task = new_task(client)
    begun = 0
    with (
        closing(sqlite3.connect(database, isolation_level=None, check_same_thread=False)) as holder,
        connection.cursor() as cursor,
    ):
        cursor.execute("PRAGMA busy_timeout = 10")
        free = threading.Timer(1, holder.execute, ["ROLLBACK"])

        def lock_after_the_claim(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
            nonlocal begun
            begun += sql.startswith("BEGIN")
            if begun == 2 and not holder.in_transaction and not free.is_alive():
                holder.execute("BEGIN IMMEDIATE")
                free.start()
            return execute(sql, *rest)

        with connection.execute_wrapper(lock_after_the_claim):
            assert worker._claim(task, HostClient(settings.LMSP.run_dir)) is None
        free.join()
    task.refresh_from_db()
    assert begun > 2, "it was tried again"
    assert (task.status, task.error_code, task.owner) == (Status.FAILED, "model_not_found", None)
    assert types(task)[-1] == "response.failed"
