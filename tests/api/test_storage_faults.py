"""A run whose storage fails for a while: what it can go on without does not end it."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from django.conf import settings
from django.db import DatabaseError, connection

from clients_app.models import Client
from lmsp_site.errors import storage_error
from models_app.engines.base import ModelSpec
from models_app.engines.client import HostClient
from tasks_app import lifecycle
from tasks_app.attempt import Attempt
from tasks_app.models import Task
from tests.store.tasks import running


@pytest.fixture
def locked(database: Path) -> Iterator[None]:
    """The database held by another process, for longer than this one waits."""
    with closing(sqlite3.connect(database, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        yield


def test_progress_that_cannot_be_noted_does_not_end_the_run(client: Client, request: pytest.FixtureRequest) -> None:
    task, run = running(client)
    spec = ModelSpec(key="m", path="/m", digest="m")
    attempt = Attempt(run, task, HostClient(settings.LMSP.run_dir), spec, None)
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout = 10")
    request.getfixturevalue("locked")
    shown = {"phase": "prefill", "done": 64, "total": 1500}
    with pytest.raises(DatabaseError) as refused:
        lifecycle.note_progress(run, shown)
    assert storage_error(refused.value)
    attempt._show(shown)
    attempt._look()
    assert Task.objects.get(pk=task.pk).progress is None
