"""Which task is claimed next: by priority, turn and age, so that nobody starves another and nothing waits for ever."""

import time
from datetime import UTC, datetime, timedelta
from threading import Barrier, Thread

import pytest
import time_machine
from django.db import connection, transaction

from clients_app.models import Client
from lmsp_site.ids import first_id_at, new_id
from lmsp_site.models import ServiceConfig
from tasks_app import claim_order, lifecycle, lookup
from tasks_app.claim_order import STEP
from tasks_app.models import Priority, Task
from tasks_app.states import Status
from tests.store.tasks import finish, new_task, recover, running

_NOW = datetime(2030, 5, 1, 12, tzinfo=UTC)
_BATCH, _INTERACTIVE = Priority.BATCH, Priority.INTERACTIVE


@pytest.fixture
def others(client: Client) -> list[Client]:
    return [Client.pair(name, [])[0] for name in ("second", "third")]


def serve() -> Task:
    """Claim what is next, run it to its end, and return it."""
    task = Task.objects.next_claimable()
    assert task is not None
    run = lifecycle.claim(task, "somebody", "", loaded=True)
    assert run is not None
    finish(run, "Done.")
    return task


def served(times: int) -> list[str]:
    return [serve().client_id for _ in range(times)]


def test_a_client_that_floods_does_not_hold_up_another(client: Client, others: list[Client]) -> None:
    for _ in range(20):
        new_task(client)
    assert served(2) == [client.pk, client.pk]
    late = new_task(others[0])
    assert Task.objects.next_claimable() == late
    new_task(others[0])
    assert served(4) == [others[0].pk, client.pk, others[0].pk, client.pk]


def test_clients_take_turns_and_each_has_its_oldest_task_first(client: Client, others: list[Client]) -> None:
    clients = [client, *others]
    tasks = {each.pk: [new_task(each).pk for _ in range(3)] for each in clients}
    order = [serve() for _ in range(9)]
    first = [task.client_id for task in order[:3]]
    assert sorted(first) == sorted(each.pk for each in clients)
    assert [task.client_id for task in order] == first * 3
    for each in clients:
        assert [task.pk for task in order if task.client_id == each.pk] == tasks[each.pk]


def test_a_higher_priority_goes_before_a_turn(client: Client, others: list[Client]) -> None:
    new_task(others[0], priority=_BATCH)
    new_task(client)
    assert served(1) == [client.pk]
    urgent = new_task(client, priority=_INTERACTIVE)
    new_task(others[1])
    assert Task.objects.next_claimable() == urgent
    assert served(3) == [client.pk, others[1].pk, others[0].pk]


@pytest.mark.parametrize("same_client", [True, False])
def test_batch_moves_under_a_constant_interactive_load(
    client: Client, others: list[Client], *, same_client: bool
) -> None:
    with time_machine.travel(_NOW, tick=False) as clock:
        batch = new_task(client, priority=_BATCH)
        loading = client if same_client else others[0]
        seconds = 0
        while (task := _next_of_two_interactive(loading)) != batch:
            assert task.priority == _INTERACTIVE
            clock.shift(timedelta(seconds=20))
            seconds += 20
            assert seconds < 3600, "the batch task starves"
        # As soon as it counts as interactive.
        assert seconds == 2 * STEP.total_seconds() + 20


def _next_of_two_interactive(client: Client) -> Task:
    while Task.objects.filter(status=Status.QUEUED, priority=_INTERACTIVE).count() < 2:
        new_task(client, priority=_INTERACTIVE)
    return serve()


def test_each_step_of_age_counts_as_one_priority(client: Client, others: list[Client]) -> None:
    with time_machine.travel(_NOW, tick=False) as clock:
        batch = new_task(others[0], priority=_BATCH)
        clock.shift(STEP - timedelta(milliseconds=1))
        normal = new_task(client)
        assert Task.objects.next_claimable() == normal
        clock.shift(timedelta(milliseconds=2))
        # The same priority now, and neither was served yet: it is the turn of the smaller id.
        first = min(client, others[0], key=lambda each: each.pk)
        assert Task.objects.next_claimable() == (normal if first == client else batch)
        urgent = new_task(others[1], priority=_INTERACTIVE)
        assert Task.objects.next_claimable() == urgent


def test_what_was_begun_is_gone_on_with_first_and_counts_as_a_turn(client: Client, others: list[Client]) -> None:
    begun, _ = running(client)
    waiting = new_task(others[0], priority=_INTERACTIVE)
    new_task(others[1])
    recover(begun, "worker_died")
    assert serve() == begun
    assert serve() == waiting
    assert (serve().client_id, Task.objects.next_claimable()) == (others[1].pk, None)


# --- Limits of what runs at once. ---


@pytest.fixture(params=["own", "default"])
def limited(request: pytest.FixtureRequest, client: Client) -> Client:
    """A client that may run two tasks at once: by a limit of its own, or by that of all."""
    if request.param == "own":
        Client.objects.filter(pk=client.pk).update(max_running=2)
        ServiceConfig.objects.update(max_running=1)
    else:
        ServiceConfig.objects.update(max_running=2)
    return client


def test_a_client_at_its_limit_waits_and_holds_up_nobody(limited: Client, others: list[Client]) -> None:
    _, run = running(limited)
    running(limited)
    waiting = new_task(limited, priority=_INTERACTIVE)
    assert Task.objects.next_claimable() is None
    assert Task.objects.count_claimable(5) == 0, "no bell is rung, and no worker taken to hang"
    assert not Task.objects.has_waited_since(datetime.now(UTC) + timedelta(seconds=1))
    assert lifecycle.claim(waiting, "who has looked before", "", loaded=True) is None
    batch = new_task(others[0], priority=_BATCH)
    assert (Task.objects.next_claimable(), Task.objects.count_claimable(5)) == (batch, 1)
    finish(run, "Done.")
    assert (Task.objects.next_claimable(), Task.objects.count_claimable(5)) == (waiting, 2)
    assert Task.objects.has_waited_since(datetime.now(UTC) + timedelta(seconds=1))


def test_what_a_restart_has_left_is_resumed_over_a_limit(client: Client) -> None:
    tasks = [running(client)[0] for _ in range(3)]
    Client.objects.filter(pk=client.pk).update(max_running=1)
    for task in tasks:
        recover(task, "server_restarted")
    new_task(client)
    assert [serve().pk for _ in range(3)] == [task.pk for task in tasks]
    assert Task.objects.next_claimable() is not None


def test_no_limit_of_its_own_is_none_whatever_all_have(client: Client) -> None:
    ServiceConfig.objects.update(max_running=1)
    Client.objects.filter(pk=client.pk).update(max_running=0)
    running(client)
    waiting = new_task(client)
    assert Task.objects.next_claimable() == waiting


def test_claims_at_once_do_not_go_beyond_a_limit(client: Client) -> None:
    Client.objects.filter(pk=client.pk).update(max_running=1)
    tasks = [new_task(client) for _ in range(4)]
    together, runs = Barrier(4), []

    def claim(task: Task) -> None:
        try:
            together.wait()
            runs.append(lifecycle.claim(task, task.pk, "", loaded=True))
        finally:
            connection.close()

    threads = [Thread(target=claim, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([run for run in runs if run]) == 1


# --- Places in the queue. ---


def test_a_place_is_how_many_are_claimed_until_then(client: Client, others: list[Client]) -> None:
    for each, count in ((client, 5), (others[0], 2), (others[1], 3)):
        for number in range(count):
            new_task(each, priority=_BATCH if number == 2 else Priority.NORMAL)
    new_task(others[1], priority=_INTERACTIVE)
    running(others[0])
    while waiting := list(Task.objects.filter(status=Status.QUEUED)):
        places = {lookup.position(task): task for task in waiting}
        assert sorted(place for place in places if place) == list(range(1, len(waiting) + 1))
        assert serve() == places[1]


def test_a_place_far_behind_is_not_counted_where_nobody_needs_it(client: Client) -> None:
    tasks = [new_task(client) for _ in range(4)]
    assert [lookup.position(task, 3) for task in tasks] == [1, 2, 3, None]
    assert lookup.position(running(client)[0]) is None


# --- How long it takes. ---


def _many(tasks: int, clients: int) -> None:
    with transaction.atomic():
        made = [new_id("client") for _ in range(clients)]
        Client.objects.bulk_create(Client(id=client_id, name="one", token_hash=client_id) for client_id in made)
        long_ago = time.time() - 3600
        ids = (f"{first_id_at('task', long_ago)[:-7]}{number:07d}" for number in range(tasks))
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO tasks (id, client_id, model, priority) VALUES (%s, %s, 'm', %s)",
                [(task_id, made[number % clients], number % 3) for number, task_id in enumerate(ids)],
            )


def test_a_claim_looks_at_no_more_tasks_than_it_has_clients(client: Client) -> None:
    """Of 6,000 tasks of 100 clients, and by the statement's plan of any number."""
    _many(6000, 100)
    Client.objects.update(max_running=1)
    running(client)
    sql, parameters = claim_order.statement()
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {sql}", parameters)
        plan = [row[3] for row in cursor.fetchall()]
        connection.connection.set_progress_handler(count, 100)
        try:
            for ask in (claim_order.next_id, lambda: claim_order.count(4), claim_order.held_back):
                steps = 0
                assert ask()
                assert steps * 100 < 30_000, "instructions of SQLite's machine"
        finally:
            connection.connection.set_progress_handler(None, 0)
    walks = [step for step in plan if " t " in step]
    assert walks
    assert all(step.startswith("SEARCH t USING") for step in walks), walks
    # The only thing that is sorted is what the walks have found: one task each.
    assert len([step for step in plan if "TEMP B-TREE FOR ORDER BY" in step]) == 1
