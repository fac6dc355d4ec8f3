"""Quotas: what a client may have, what it is told, and that nobody gets round it."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from threading import Barrier, Thread

import pytest
import time_machine
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from clients_app import authentication, limits, request_rate
from clients_app.models import Client
from clients_app.request_rate import LastMinute
from lmsp_site import group_commit
from lmsp_site.errors import TooManyRequests
from lmsp_site.models import ServiceConfig
from tasks_app import inputs, quotas, retention
from tasks_app.models import ClientStorage, Task
from tasks_app.states import Status
from tests.store.tasks import finish, new_task, put, running

_NOW = datetime(2030, 5, 1, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _limits_of_this_test_alone() -> Iterator[None]:
    limits.forget()
    yield
    limits.forget()


def limited(client: Client, **own: int) -> Client:
    """Return the client with limits of its own."""
    Client.objects.filter(pk=client.pk).update(**own)
    return Client.objects.get(pk=client.pk)


def refused(client: Client) -> TooManyRequests:
    with pytest.raises(TooManyRequests) as caught:
        quotas.check(client)
    error = caught.value
    assert (error.status, error.type) == (429, "rate_limit_error")
    assert "nothing was stored" in error.message
    assert error.headers["Retry-After"] == error.headers["RateLimit-Reset"]
    assert error.headers["RateLimit-Remaining"] == "0"
    return error


def test_without_limits_nothing_is_asked_for(client: Client) -> None:
    quotas.check(client)
    with CaptureQueriesContext(
        connection,
    ) as asked:
        quotas.check(client)
        request_rate.take(client)
    assert len(asked) == 0


def test_an_own_limit_goes_before_that_of_all_and_none_is_none(client: Client) -> None:
    other, _ = Client.pair("other", [])
    ServiceConfig.objects.update(max_queued=1)
    for each in (client, other):
        new_task(each)
    assert refused(client).headers["RateLimit-Limit"] == "1"
    client = limited(client, max_queued=2)
    quotas.check(client)
    new_task(client)
    assert refused(client).headers["RateLimit-Limit"] == "2"
    quotas.check(limited(client, max_queued=0))
    assert refused(other).code == "too_many_queued_tasks"


def test_only_what_waits_is_queued(client: Client) -> None:
    client = limited(client, max_queued=1)
    for status in set(Status) - {Status.QUEUED}:
        put(new_task(client), status)
    quotas.check(client)
    new_task(client)
    assert int(refused(client).headers["Retry-After"]) <= 10


def test_twenty_creations_at_once_do_not_go_beyond_the_queue(client: Client) -> None:
    client = limited(client, max_queued=5)
    together = Barrier(20)
    outcomes: list[Task | TooManyRequests] = []

    def create() -> None:
        def write() -> Task:
            quotas.check(client)
            return new_task(client)

        try:
            together.wait()
            outcomes.append(group_commit.write(write))
        except TooManyRequests as error:
            outcomes.append(error)
        finally:
            connection.close()

    threads = [Thread(target=create) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Task.objects.filter(status=Status.QUEUED).count() == 5
    assert sum(isinstance(outcome, TooManyRequests) for outcome in outcomes) == 15


def test_tokens_are_those_of_a_day_and_of_what_is_unfinished(client: Client) -> None:
    with time_machine.travel(_NOW, tick=False) as clock:
        client = limited(client, max_tokens_per_day=10)
        _, run = running(client)
        new_task(client)
        assert quotas.used(client, "max_tokens_per_day") == 6
        finish(run, "Done.")
        assert quotas.used(client, "max_tokens_per_day") == 7
        quotas.check(client)
        new_task(client)
        error = refused(client)
        assert error.code == "insufficient_quota"
        assert error.headers["Retry-After"] == str(12 * 3600)
        assert error.headers["x-should-retry"] == "false"
        clock.shift(timedelta(hours=12))
        # What is unfinished counts on whatever day it is.
        assert quotas.used(client, "max_tokens_per_day") == 6
        quotas.check(client)


def _stored(client: Client, text: str) -> Task:
    task = new_task(client)
    with transaction.atomic():
        inputs.store(task, [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}])
    return task


def test_stored_bytes_are_added_up_and_go_with_their_tasks(client: Client) -> None:
    small, large = _stored(client, "x" * 100), _stored(client, "ä" * 5000)
    sizes = {task.pk: task.stored_bytes or 0 for task in Task.objects.all()}
    assert sizes[large.pk] - sizes[small.pk] == 2 * 5000 - 100
    used = quotas.used(client, "max_stored_bytes")
    assert used == sizes[small.pk] + sizes[large.pk]
    client = limited(client, max_stored_bytes=used)
    assert refused(client).code == "storage_quota_exceeded"
    put(large, Status.COMPLETED)
    with_response = quotas.used(client, "max_stored_bytes")
    assert with_response > used + 500
    assert retention.forget(large.pk)
    assert quotas.used(client, "max_stored_bytes") == sizes[small.pk]
    quotas.check(client)
    put(small, Status.CANCELLED)
    assert retention.forget(small.pk)
    assert ClientStorage.objects.get().bytes == 0


def test_the_overview_says_what_is_left(client: Client) -> None:
    ServiceConfig.objects.update(max_running=3)
    client = limited(client, max_queued=2, max_requests_per_minute=9)
    running(client)
    for _ in range(3):
        new_task(client)
    request_rate.take(client)
    assert quotas.overview(client) == {
        "running": {"limit": 3, "used": 1, "remaining": 2},
        "queued": {"limit": 2, "used": 3, "remaining": 0},
        "requests_per_minute": {"limit": 9, "used": 1, "remaining": 8},
        "tokens_per_day": {"limit": None, "used": 12, "remaining": None},
        "stored_bytes": {"limit": None, "used": 0, "remaining": None},
    }


# --- Requests a minute. ---


def ask(token: str) -> dict[str, str]:
    return authentication.authenticate(f"Bearer {token}").quota_headers


def test_a_limit_is_told_with_each_answer_and_kept(client: Client) -> None:
    _, foreign = Client.pair("other", [])
    counted, token = Client.pair("counted", [])
    limited(counted, max_requests_per_minute=3)
    assert [ask(token)["RateLimit-Remaining"] for _ in range(3)] == ["2", "1", "0"]
    with pytest.raises(TooManyRequests) as caught:
        ask(token)
    error = caught.value
    assert (error.code, error.headers["RateLimit-Limit"]) == ("rate_limit_exceeded", "3")
    assert 55 <= int(error.headers["Retry-After"]) <= 60
    assert "x-should-retry" not in error.headers
    assert ask(foreign) == {}
    assert (request_rate.used(counted), request_rate.used(client)) == (None, None)
    assert request_rate.used(Client.objects.get(pk=counted.pk)) == 3, "what was refused does not count"


def test_in_no_minute_are_more_requests_than_the_limit() -> None:
    minute = LastMinute()
    let_in: list[float] = []
    for eighth in range(2400):
        now = 1000 + eighth / 8
        if not minute.wait(7, now):
            minute.add(now)
            let_in.append(now)
        assert sum(now - 60 < moment for moment in let_in) <= 7
    assert len(let_in) == 5 * 7
    now = let_in[-1]
    assert minute.reset(now) == pytest.approx(let_in[-7] + 60 - now)
    # Lowered to two: only when all but the last have gone is there room.
    assert minute.wait(2, now) == pytest.approx(let_in[-2] + 60 - now)
    assert minute.wait(9, now) == 0


def test_requests_at_once_do_not_go_beyond_the_limit(client: Client) -> None:
    client = limited(client, max_requests_per_minute=50)
    together, let_in = Barrier(8), []

    def call() -> None:
        together.wait()
        for _ in range(20):
            try:
                let_in.append(request_rate.take(client))
            except TooManyRequests:
                continue

    limits.limit(client, "max_queued")
    threads = [Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(let_in) == 50
    assert sorted(int(headers["RateLimit-Remaining"]) for headers in let_in) == list(range(50))
