"""Clients: whose token is good until when, when they were seen, and what becomes of their work."""

import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import time_machine
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.models import ProtectedError
from django.test.utils import CaptureQueriesContext

from clients_app import authentication, tokens, usage
from clients_app.models import CannotRotate, Client
from clients_app.scopes import ALL
from lmsp_site.errors import Unauthenticated
from tasks_app import audit, recovery, revoked
from tasks_app.models import Task
from tasks_app.states import FINISHED, Status
from tests.store.admitting import admitted
from tests.store.tasks import log, new_task, put, running

_NOW = datetime(2030, 5, 1, 12, tzinfo=UTC)


def test_a_new_token_is_good_at_once_and_the_old_one_until_the_overlap_ends(database: Path) -> None:
    with time_machine.travel(_NOW, tick=False) as clock:
        client, old = Client.pair("x", list(ALL))
        new = client.rotate(timedelta(hours=1))
        assert new != old
        assert tokens.well_formed(new)
        assert authentication.authenticate(f"Bearer {old}") == authentication.authenticate(f"Bearer {new}") == client
        clock.move_to(_NOW + timedelta(seconds=3599))
        assert (admitted(old), admitted(new)) == (True, True)
        clock.move_to(_NOW + timedelta(hours=1))
        assert (admitted(old), admitted(new)) == (False, True)


def test_without_an_overlap_the_old_token_ends_at_once(database: Path) -> None:
    client, old = Client.pair("x", list(ALL))
    new = client.rotate(timedelta(0))
    assert (admitted(old), admitted(new)) == (False, True)


def test_a_client_has_two_good_tokens_at_most(database: Path) -> None:
    client, first = Client.pair("x", list(ALL))
    second, third = client.rotate(timedelta(hours=1)), client.rotate(timedelta(hours=1))
    assert [admitted(token) for token in (first, second, third)] == [False, True, True]


def test_two_that_rotate_at_once_leave_no_third_token(database: Path) -> None:
    client, first = Client.pair("x", list(ALL))
    also = Client.objects.get(pk=client.pk)
    second = client.rotate(timedelta(hours=1))
    # This one has been read before, and knows the first token alone.
    third = also.rotate(timedelta(hours=1))
    assert [admitted(token) for token in (first, second, third)] == [False, True, True]


def test_expiry_is_a_moment_and_can_be_moved(database: Path) -> None:
    with time_machine.travel(_NOW, tick=False) as clock:
        client, token = Client.pair("x", list(ALL), expires_at=_NOW + timedelta(days=1))
        old, token = token, client.rotate(timedelta(days=2))
        clock.move_to(_NOW + timedelta(days=1, seconds=-1))
        assert (admitted(old), admitted(token)) == (True, True)
        clock.move_to(_NOW + timedelta(days=1))
        assert (admitted(old), admitted(token)) == (False, False)
        assert Client.objects.get().state == "expired"
        with pytest.raises(CannotRotate, match="expired; set a later date"):
            client.rotate(timedelta(0))
        Client.objects.update(expires_at=_NOW + timedelta(days=3))
        assert (admitted(old), admitted(token)) == (True, True)


def test_a_revoked_client_is_refused_with_both_tokens_and_for_good(database: Path) -> None:
    client, old = Client.pair("x", list(ALL))
    new = client.rotate(timedelta(hours=1))
    assert client.revoke()
    at = client.revoked_at
    assert not client.revoke()
    assert client.revoked_at == at
    assert (admitted(old), admitted(new), client.state) == (False, False, "revoked")
    refusals = []
    for token in (new, tokens.generate()):
        with pytest.raises(Unauthenticated) as refused:
            authentication.authenticate(f"Bearer {token}")
        refusals.append(refused.value.body())
    # That it was one that is known is not told.
    assert refusals[0] == refusals[1]
    with pytest.raises(CannotRotate, match="pair the program again"):
        client.rotate(timedelta(0))
    assert not admitted(new)


def test_a_token_is_looked_up_by_its_hash_along_indexes(database: Path) -> None:
    """How long a comparison of a token takes could tell it; there is none."""
    _, token = Client.pair("x", list(ALL))
    with CaptureQueriesContext(connection) as asked:
        assert admitted(token)
    statements = [query["sql"] for query in asked.captured_queries]
    assert any(tokens.digest(token) in statement for statement in statements)
    assert not any(token in statement for statement in statements)
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {statements[0]}")
        steps = " ".join(row[-1] for row in cursor.fetchall())
    assert "MULTI-INDEX OR" in steps
    assert "SCAN" not in steps


def test_many_hashes_are_one_query(database: Path) -> None:
    paired = [Client.pair(f"client {number}", []) for number in range(30)]
    old = tokens.digest(paired[0][1])
    new = tokens.digest(paired[0][0].rotate(timedelta(hours=1)))
    paired[1][0].revoke()
    hashes = {new, tokens.digest("nobody's"), *(tokens.digest(token) for _, token in paired)}
    with CaptureQueriesContext(connection) as asked:
        found = Client.objects.admitted(hashes)
    assert len(asked) == 1
    assert found.keys() == hashes - {tokens.digest("nobody's"), tokens.digest(paired[1][1])}
    assert found[old] == found[new] == paired[0][0]


# --- When it was last seen. ---


def last_use() -> datetime | None:
    return Client.objects.values_list("last_used_at", flat=True).get()


def test_last_use_is_noted_once_a_minute(database: Path) -> None:
    with time_machine.travel(_NOW, tick=False) as clock:
        _, token = Client.pair("x", [])
        assert last_use() is None
        for seconds, noted in ((0, 0), (1, 0), (59, 0), (61, 61), (62, 61), (200, 200)):
            clock.move_to(_NOW + timedelta(seconds=seconds))
            assert admitted(token)
            assert last_use() == _NOW + timedelta(seconds=noted)
        # The clock was set back.
        clock.move_to(_NOW - timedelta(days=1))
        assert admitted(token)
        assert last_use() == _NOW - timedelta(days=1)


def test_of_two_calls_at_once_one_is_noted(database: Path) -> None:
    with time_machine.travel(_NOW, tick=False) as clock:
        client, token = Client.pair("x", [])
        assert admitted(token)
        clock.move_to(_NOW + timedelta(seconds=30))
        # Found by the other call before the first had written.
        assert client.last_used_at is None
        usage.note(client)
        assert last_use() == _NOW


def test_what_is_refused_is_no_use(database: Path) -> None:
    client, token = Client.pair("x", [])
    client.revoke()
    assert not admitted(token)
    assert not admitted(tokens.generate())
    assert last_use() is None


def test_a_locked_database_keeps_nobody_waiting(database: Path) -> None:
    _, token = Client.pair("x", [])
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        assert admitted(token)
        # Django's own connections would wait for 20 s.
        assert time.monotonic() - began < 1
        other.execute("ROLLBACK")
    assert last_use() is None
    assert admitted(token)
    assert last_use() is not None


def test_a_database_that_is_for_reading_keeps_nobody_out(database: Path) -> None:
    _, token = Client.pair("x", [])
    with connection.cursor() as cursor:
        cursor.execute("CREATE TRIGGER full BEFORE UPDATE ON clients BEGIN SELECT RAISE(FAIL, 'disk is full'); END")
    assert admitted(token)
    assert last_use() is None


# --- What becomes of its work. ---


def test_a_client_with_tasks_cannot_be_deleted(client: Client) -> None:
    task = new_task(client)
    with pytest.raises(ProtectedError, match=r"protected foreign keys: 'Task\.client'"):
        client.delete()
    assert Task.objects.get(pk=task.pk).client == client
    other, _ = Client.pair("without tasks", [])
    other.delete()
    assert list(Client.objects.all()) == [client]


@pytest.mark.parametrize("status", sorted(Status))
def test_what_a_revoked_client_left_is_cancelled(client: Client, database: Path, status: Status) -> None:
    other, _ = Client.pair("other", [])
    kept = new_task(other)
    task = put(new_task(client), status)
    before = log(task)
    client.revoke()
    revoked.cancel_all()
    after = Task.objects.get(pk=task.pk)
    if status in FINISHED:
        assert (after.status, log(task)) == (status, before)
    else:
        held = status != Status.QUEUED
        assert after.status == (Status.CANCELLING if held else Status.CANCELLED)
        assert [entry.type for entry in log(task)][-1] == f"response.{after.status}"
        # A second look has nothing to do with what a worker is about to end.
        numbers = after.last_sequence_number
        assert revoked.cancel_all() == 0
        assert Task.objects.get(pk=task.pk).last_sequence_number == numbers
    assert Task.objects.get(pk=kept.pk).status == Status.QUEUED
    assert audit.audit(database)["violations"] == []


def test_the_sweep_finds_it_whoever_has_revoked_the_client(client: Client) -> None:
    task = new_task(client)
    Client.objects.update(revoked_at=_NOW)
    recovery.sweep()
    assert Task.objects.get(pk=task.pk).status == Status.CANCELLED


def test_what_waits_to_be_resumed_is_cancelled_too(client: Client) -> None:
    task, _ = running(client)
    Task.objects.filter(pk=task.pk).update(owner=None)
    client.revoke()
    assert revoked.cancel_all() == 1
    assert Task.objects.get(pk=task.pk).status == Status.CANCELLED


def test_one_that_has_expired_keeps_its_work(client: Client) -> None:
    task = new_task(client)
    Client.objects.update(expires_at=_NOW - timedelta(days=9000))
    recovery.sweep()
    assert Task.objects.get(pk=task.pk).status == Status.QUEUED


def test_more_than_a_sweep_may_cancel_are_all_cancelled_by_the_command(client: Client) -> None:
    for _ in range(205):
        new_task(client)
    client.revoke()
    assert revoked.cancel_some() == 200
    assert revoked.cancel_all() == 5
    assert not Task.objects.unfinished().exists()


def test_clients_of_an_earlier_version_are_kept(client: Client, database: Path) -> None:
    task = new_task(client)
    _migrate("0001_initial")
    _migrate("0004_turns_and_quotas")
    assert Client.objects.get() == client
    assert Client.objects.get().state == "active"
    assert Task.objects.get(pk=task.pk).client == client
    assert audit.audit(database)["violations"] == []


def _migrate(name: str) -> None:
    MigrationExecutor(connection).migrate([("clients_app", name)])
