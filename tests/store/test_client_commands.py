"""Commands about clients, on a database that nobody serves."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.core.management import CommandError, call_command

from clients_app.models import Client
from lmsp_site.audit_log import AuditEntry
from tasks_app.models import Task
from tasks_app.states import Status
from tests.store.admitting import admitted
from tests.store.tasks import new_task, running

_NOW = 1_900_000_000


def run(*arguments: str) -> dict[str, Any]:
    out = StringIO()
    call_command(*arguments, "--json", stdout=out)
    answer: dict[str, Any] = json.loads(out.getvalue())
    return answer


def shown(*arguments: str) -> str:
    out = StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


def test_a_client_can_be_given_an_end(database: Path) -> None:
    with time_machine.travel(_NOW, tick=False) as clock:
        made = run("create_client", "x", "--scopes", "tasks:read", "--expires-in", "0.5")
        assert made["expires_at"] == _NOW + 43_200
        assert run("create_client", "y")["expires_at"] is None
        assert admitted(made["token"])
        clock.move_to(_NOW + 43_200)
        assert not admitted(made["token"])
        states = {one["name"]: one["state"] for one in run("list_clients")["clients"]}
        assert states == {"x": "expired", "y": "active"}


@pytest.mark.parametrize("days", ["0", "-1", "nan", "inf", "36501"])
def test_an_end_that_cannot_be_meant_is_refused(database: Path, days: str) -> None:
    with pytest.raises(CommandError, match="--expires-in takes days"):
        run("create_client", "x", f"--expires-in={days}")
    assert not Client.objects.exists()


def test_a_token_is_rotated_by_name_or_id(database: Path) -> None:
    with time_machine.travel(_NOW, tick=False):
        first = run("create_client", "x")
        second = run("rotate_token", "x")
        assert second.keys() == {"client_id", "token", "previous_token_until"}
        assert (second["client_id"], second["previous_token_until"]) == (first["client_id"], _NOW + 3600)
        third = run("rotate_token", first["client_id"], "--overlap", "0")
        assert third["previous_token_until"] == _NOW
        assert [admitted(made["token"]) for made in (first, second, third)] == [False, False, True]


@pytest.mark.parametrize("overlap", ["-1", "2592001"])
def test_an_overlap_that_cannot_be_meant_is_refused(database: Path, overlap: str) -> None:
    made = run("create_client", "x")
    with pytest.raises(CommandError, match="from 0 to 2592000"):
        run("rotate_token", "x", f"--overlap={overlap}")
    assert admitted(made["token"])


def test_revoking_cancels_what_is_unfinished_and_leaves_others_alone(client: Client) -> None:
    other, _ = Client.pair("other", [])
    kept, waiting = new_task(other), new_task(client)
    held, _ = running(client)
    answer = run("revoke_client", client.id)
    assert answer.keys() == {"client_id", "revoked_at", "tasks_cancelled"}
    assert answer["tasks_cancelled"] == 2
    states = dict(Task.objects.values_list("pk", "status"))
    assert states == {kept.id: Status.QUEUED, waiting.id: Status.CANCELLED, held.id: Status.CANCELLING}
    assert run("revoke_client", client.id) == answer | {"tasks_cancelled": 0}
    with pytest.raises(CommandError, match="is revoked, for good"):
        run("rotate_token", client.id)


def test_a_client_that_is_not_there_or_not_the_only_one_is_named(database: Path) -> None:
    for _ in range(2):
        Client.pair("twin", [])
    for command in ("revoke_client", "rotate_token"):
        with pytest.raises(CommandError, match=r"There is no client 'nobody'\. There are: twin\."):
            run(command, "nobody")
        with pytest.raises(CommandError, match="Several clients are called 'twin': client_"):
            run(command, "twin")
    assert not Client.objects.exclude(revoked_at=None).exists()


def test_clients_are_listed_with_what_they_have_to_do(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert "lmsp_" not in json.dumps(run("list_clients"))
    with time_machine.travel(_NOW, tick=False):
        made = run("create_client", "x\x1b[31m", "--scopes", "tasks:read", "--expires-in", "2")
        admitted(made["token"])
        new_task(client)
        new_task(client)
        newest, oldest = run("list_clients")["clients"]
        assert newest == {
            "id": made["client_id"],
            "name": "x\x1b[31m",
            "state": "active",
            "scopes": ["tasks:read"],
            "created_at": _NOW,
            "last_used_at": _NOW,
            "expires_at": _NOW + 172_800,
            "revoked_at": None,
            "unfinished_tasks": 0,
        }
        assert oldest["unfinished_tasks"] == 2
        table = shown("list_clients")
    heading, first, second = table.splitlines()
    assert heading.split() == ["NAME", "ID", "STATE", "SCOPES", "AGE", "LAST", "USED", "EXPIRES", "IN", "UNFINISHED"]
    assert "\x1b[31m" not in first
    assert "2.0 d" in first
    assert second.endswith("2")


def test_without_clients_the_list_says_so(database: Path) -> None:
    assert shown("list_clients") == "No client.\n"
    assert run("list_clients") == {"clients": []}


def test_limits_are_given_and_taken_and_written_down(client: Client) -> None:
    new_task(client)
    answer = run("set_quotas", "tests", "--queued", "7", "--requests-per-minute", "0")
    assert answer["client_id"] == client.pk
    assert answer["quotas"]["queued"] == {"limit": 7, "used": 1, "remaining": 6}
    assert answer["quotas"]["requests_per_minute"] == {"limit": None}
    client.refresh_from_db()
    assert (client.max_queued, client.max_requests_per_minute, client.max_running) == (7, 0, None)
    assert run("set_quotas", client.pk) == answer
    assert run("set_quotas", "tests", "--queued", "default")["quotas"]["queued"]["limit"] is None
    entries = AuditEntry.objects.filter(subject_id=client.pk, action="changed").order_by("id")
    assert [entry.detail["changes"]["max_queued"] for entry in entries] == [
        {"from": None, "to": 7},
        {"from": 7, "to": None},
    ]
    for option, value in (("--queued", "-1"), ("--running", "many"), ("--requests-per-minute", "100001")):
        with pytest.raises(CommandError, match=f"{option} takes a number up to"):
            run("set_quotas", "tests", f"{option}={value}")
