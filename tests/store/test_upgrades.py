"""What an earlier version has stored is there after the migrations."""

import json
from pathlib import Path

from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from clients_app.models import Client
from tasks_app import audit, guards, responses
from tasks_app.models import Task
from tests.store.tasks import finish, new_task, running, say

_RESPONSES_WERE_STORED_TWICE = ("tasks_app", "0004_expires_at")


def test_responses_that_were_stored_twice_are_found_in_the_log(client: Client, database: Path) -> None:
    ended = []
    for reason in ("max_output_tokens", None):
        task, run = running(client)
        say(run, "Once", " upon")
        finish(run, " a time", reason)
        ended.append(Task.objects.get(pk=task.pk))
    waiting = new_task(client)
    before = [responses.current(task) for task in ended]

    _migrate(_RESPONSES_WERE_STORED_TWICE)
    with connection.cursor() as cursor:
        for task, body in zip(ended, before, strict=True):
            cursor.execute("UPDATE responses SET body = %s WHERE task_id = %s", [json.dumps(body), task.id])
    _migrate(*MigrationExecutor(connection).loader.graph.leaf_nodes("tasks_app"))

    after = [Task.objects.get(pk=task.pk) for task in ended]
    assert [task.incomplete_reason for task in after] == ["max_output_tokens", None]
    assert [responses.current(task) for task in after] == before
    assert Task.objects.next_claimable() == waiting
    assert audit.audit(database)["violations"] == []
    assert guards.missing() == []


def _migrate(*targets: tuple[str, str]) -> None:
    MigrationExecutor(connection).migrate(list(targets))
