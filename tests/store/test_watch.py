"""The look at everything that is open: one query a second, however much it is."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from clients_app import authentication
from clients_app.models import Client
from clients_app.scopes import ALL, WEBSOCKET
from lmsp_site.errors import ProtocolError
from tasks_app.callers import LOOK_SECONDS, Watch
from tasks_app.stream import log_reads
from tests.service import eventually

EVENTS = (WEBSOCKET, "/v1/events")
RESPONSES = (WEBSOCKET, "/v1/responses")


def run(scenario: Callable[[list[str]], Coroutine[Any, Any, None]]) -> None:
    """Run something on an event loop; it gets the statements that the looks have made."""
    asked: list[str] = []

    def note(execute: Any, sql: str, *rest: Any) -> Any:
        asked.append(sql)
        return execute(sql, *rest)

    # Each thread has a connection of its own.
    def begin() -> None:
        connection.execute_wrappers.append(note)

    def end() -> None:
        connection.execute_wrappers.remove(note)
        connection.close()

    async def whole() -> None:
        await log_reads.run(begin)
        try:
            await asyncio.wait_for(scenario(asked), 30)
        finally:
            await log_reads.run(end)

    asyncio.run(whole())


def arrived(token: str) -> Client:
    return authentication.authenticate(f"Bearer {token}")


def test_hundreds_of_streams_are_one_query_a_second_and_none_is_none(database: Path) -> None:
    clients = [arrived(Client.pair(f"client {number}", list(ALL))[1]) for number in range(20)]

    async def scenario(asked: list[str]) -> None:
        watch = Watch()
        with ExitStack() as opened:
            ends = [opened.enter_context(watch.over(client, *EVENTS)) for client in clients for _ in range(20)]
            await two_looks(asked)
            assert not any(end.done() for end in ends)
        asked.clear()
        await asyncio.sleep(1.5 * LOOK_SECONDS)
        assert not asked
        # Who comes then is looked after by one look, too.
        with watch.over(clients[0], *EVENTS):
            await two_looks(asked)

    async def two_looks(asked: list[str]) -> None:
        began = time.monotonic()
        await asyncio.to_thread(eventually, lambda: len(asked) >= 2)
        assert time.monotonic() - began >= 2 * LOOK_SECONDS

    run(scenario)


def test_each_is_told_what_it_would_be_refused_with(database: Path) -> None:
    clients = [arrived(Client.pair(name, list(ALL))[1]) for name in ("revoked", "narrowed", "deleted", "kept")]
    revoked, narrowed, deleted, kept = clients

    async def scenario(asked: list[str]) -> None:
        watch = Watch()
        with ExitStack() as opened:

            def over(client: Client, call: tuple[str, str]) -> "asyncio.Future[ProtocolError]":
                return opened.enter_context(watch.over(client, *call))

            ended = [over(revoked, EVENTS), over(deleted, EVENTS), over(narrowed, RESPONSES)]
            going_on = [over(narrowed, EVENTS), over(kept, EVENTS), over(kept, RESPONSES)]
            await asyncio.to_thread(change)
            errors = await asyncio.gather(*ended)
            assert [(error.status, error.code) for error in errors] == [
                (401, "invalid_token"),
                (401, "invalid_token"),
                (403, "insufficient_scope"),
            ]
            assert not any(end.done() for end in going_on)

    def change() -> None:
        revoked.revoke()
        deleted.delete()
        Client.objects.filter(pk=narrowed.pk).update(scopes=["tasks:read"])
        connection.close()

    run(scenario)


def test_a_look_that_fails_ends_nothing_and_is_not_the_last(database: Path, caplog: pytest.LogCaptureFixture) -> None:
    client = arrived(Client.pair("x", list(ALL))[1])

    async def scenario(asked: list[str]) -> None:
        watch = Watch()
        with watch.over(client, *EVENTS) as end:
            await log_reads.run(execute, "ALTER TABLE clients RENAME TO elsewhere")
            await asyncio.sleep(2.5 * LOOK_SECONDS)
            assert not end.done()
            await log_reads.run(execute, "ALTER TABLE elsewhere RENAME TO clients")
            await log_reads.run(client.revoke)
            assert (await end).status == 401

    run(scenario)
    # Once, and not once a second.
    assert [record.message for record in caplog.records] == ["cannot look after open streams"]


def execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)
