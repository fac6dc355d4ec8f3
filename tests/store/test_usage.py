"""What clients have had: counted in the transaction in which a task ends, and kept whatever becomes of both."""

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.contrib.auth.models import User
from django.core.management import CommandError
from django.db import connection, transaction
from django.test import Client as Browser

from clients_app.models import Client
from tasks_app import lifecycle, retention, usage
from tasks_app.models import Task, Usage
from tasks_app.output import Output
from tasks_app.states import FINISHED, Status
from tests.store.tasks import finish, new_task, put, recover, running, say
from tests.store.test_client_commands import run, shown

_NOW = datetime(2030, 5, 1, 23, 59, tzinfo=UTC)
_DAY = date(2030, 5, 1)


def had(client: Client, model: str = "m") -> tuple[int, ...]:
    """Return tasks, tokens in and out, over all days."""
    rows = Usage.objects.filter(client_id=client.pk, model=model)
    return tuple(
        sum(values) for values in zip(*rows.values_list("tasks", "input_tokens", "output_tokens"), strict=True)
    )


def test_each_end_is_counted_once_with_what_it_has_cost(client: Client) -> None:
    for status in FINISHED:
        put(new_task(client), status)
    assert had(client) == (3, 9, 1)
    put(new_task(client), Status.CANCELLING)
    assert had(client) == (3, 9, 1)
    never_begun = new_task(client)
    lifecycle.cancel(never_begun.pk)
    assert had(client) == (4, 9, 1), "a prompt that no model has read costs nothing"


def test_it_belongs_to_client_model_and_the_day_of_the_end(client: Client) -> None:
    other, _ = Client.pair("other", [])
    with time_machine.travel(_NOW, tick=False) as clock:
        _, first = running(client)
        task, second = running(other)
        Task.objects.filter(pk=task.pk).update(model="n")
        finish(first, "Done.")
        clock.shift(timedelta(seconds=90))
        finish(second, "Done.")
    rows = list(Usage.objects.order_by("day").values_list("client_id", "day", "model", "run_ms"))
    assert rows == [(client.pk, _DAY, "m", 0), (other.pk, _DAY + timedelta(days=1), "n", 90_000)]


def test_what_was_generated_in_vain_counts_and_a_prompt_once(client: Client) -> None:
    task, first = running(client, on_restart="retry")
    say(first, "In", " vain")
    recover(task, "worker_died")
    assert had(client) == (0, 0, 2)
    again = lifecycle.claim(Task.objects.get(pk=task.pk), "another", "", loaded=True)
    assert again is not None
    finish(again, ".")
    assert had(client) == (1, 3, 3)


def test_an_end_that_is_rolled_back_has_cost_nothing(client: Client) -> None:
    task, run_ = running(client)
    output = Output.of(task.pk)
    with transaction.atomic():
        lifecycle.complete(run_, 0, [7], [1], output.close("completed"), output, None)
        assert had(client) == (1, 3, 1)
        transaction.set_rollback(True)
    assert had(client) == ()
    with pytest.raises(AssertionError, match="one transaction"):
        usage.add({(client.pk, "m"): usage.Used(1)})


def test_neither_retention_nor_the_deletion_of_the_client_takes_it_back(client: Client) -> None:
    task, run_ = running(client)
    finish(run_, "Done.")
    assert retention.forget(task.pk)
    client_id = client.pk
    client.delete()
    assert Usage.objects.get().output_tokens == 1
    assert run("usage", "--client", client_id)["usage"][0]["client"] == {"id": client_id, "name": None}
    browser = Browser(SERVER_NAME="127.0.0.1")
    browser.force_login(User.objects.create_superuser("admin", password=None))
    assert "deleted, …" in browser.get("/admin/tasks_app/usage/").content.decode()


def _some_days(client: Client) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO usage (client_id, day, model, tasks, input_tokens, output_tokens, run_ms)"
            " VALUES (%s, %s, %s, 1, 10, 2, 500)",
            [(client.pk, (_DAY - timedelta(days=ago)).isoformat(), model) for ago in range(40) for model in "ab"],
        )


def test_days_are_summed_and_models_told_apart(client: Client) -> None:
    _some_days(client)
    other, _ = Client.pair("other", [])
    since = _DAY - timedelta(days=1)
    rows = usage.listed(since, _DAY, client_id=client.pk)
    assert [usage.usage_object(row) for row in rows] == [
        {
            "object": "usage",
            "day": day,
            "model": None,
            "tasks": 2,
            "input_tokens": 20,
            "output_tokens": 4,
            "total_tokens": 24,
            "run_seconds": 1.0,
        }
        for day in ("2030-05-01", "2030-04-30")
    ]
    by_model = usage.listed(since, _DAY, client_id=client.pk, by_model=True)
    assert [(row["day"], row["model"], row["tasks"]) for row in by_model] == [
        (_DAY, "a", 1),
        (_DAY, "b", 1),
        (since, "a", 1),
        (since, "b", 1),
    ]
    assert [row["model"] for row in usage.listed(_DAY, _DAY, by_model=True, model="b")] == ["b"]
    assert usage.listed(since, _DAY, client_id=other.pk) == []


def test_the_command_shows_what_clients_have_had(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    _some_days(client)
    with time_machine.travel(_NOW, tick=False):
        assert len(run("usage")["usage"]) == 2 * 30
        (row, _) = run("usage", "--client", "tests", "--from", "2030-05-01")["usage"]
        assert (row["client"], row["model"], row["total_tokens"]) == ({"id": client.pk, "name": "tests"}, "a", 12)
        assert len(run("usage", "--from", "2030-04-01", "--to", "2030-04-02")["usage"]) == 4
        assert shown("usage", "--from", "2031-01-01") == "No usage in these days.\n"
        heading, first, *_ = shown("usage").splitlines()
    assert heading.split() == ["DAY", "CLIENT", "MODEL", "TASKS", "TOKENS", "IN", "OUT", "SECONDS"]
    assert first.split() == ["2030-05-01", "tests", "a", "1", "10", "2", "0.5"]
    with pytest.raises(CommandError, match="There is no client 'nobody'"):
        run("usage", "--client", "nobody")


def test_people_read_it_in_the_admin_and_change_nothing(client: Client, database: Path) -> None:
    _some_days(client)
    browser = Browser(SERVER_NAME="127.0.0.1")
    browser.force_login(User.objects.create_superuser("admin", password=None))
    page = browser.get("/admin/tasks_app/usage/", {"model": "a", "client_id": client.pk}).content.decode()
    assert client.pk in page
    assert "2030" in page
    row: Any = Usage.objects.first()
    assert browser.get(f"/admin/tasks_app/usage/{row.pk}/change/").status_code == 200
    assert browser.post(f"/admin/tasks_app/usage/{row.pk}/change/", {"tasks": 0}).status_code == 403
    assert browser.post(f"/admin/tasks_app/usage/{row.pk}/delete/", {"post": "yes"}).status_code == 403
    assert json.dumps(list(Usage.objects.values_list("tasks", flat=True))) == json.dumps([1] * 80)
