"""The table of minutes, and what is drawn from it."""

import time
from collections.abc import Iterator

import pytest
import time_machine

from clients_app.models import Client
from tasks_app.board import history, state
from tasks_app.models import Minute
from tasks_app.states import Status
from tests.store.tasks import new_task, put

START = 1_900_000_020  # The 0th second of some minute.


@pytest.fixture
def clock() -> Iterator[time_machine.Traveller]:
    with time_machine.travel(START, tick=False) as coordinates:
        yield coordinates


def test_a_minute_is_noted_once_with_all_that_was_counted(client: Client, clock: time_machine.Traveller) -> None:
    keeper = history.Keeper()
    keeper.tend()
    for status in (Status.COMPLETED, Status.FAILED, Status.RUNNING, Status.QUEUED):
        put(new_task(client), status)
    keeper.tend()
    assert Minute.objects.count() == 1
    clock.shift(60)
    keeper.tend()
    # Another supervisor at the same time.
    history.Keeper().tend()
    before, row = Minute.objects.order_by("minute")
    assert (before.finished, row.finished) == (0, 2)
    assert (row.minute - before.minute, row.waiting, row.running) == (1, 1, 1)
    assert row.failed == {"engine_died": 1}
    plots = history.plots()
    assert plots["hour"]["tasks_per_minute"] == [2]
    assert plots["hour"]["tokens_per_second"] == [round(1 / 60, 2)]
    assert state.failures(plots["failures"])[0]["count"] == 1


def test_old_minutes_go(database: object, clock: time_machine.Traveller) -> None:
    keeper = history.Keeper()
    keeper.tend()
    clock.shift(history.KEPT_MINUTES * 60)
    keeper.tend()
    assert Minute.objects.count() == 2
    clock.shift(60)
    keeper.tend()
    assert Minute.objects.count() == 2


def test_a_day_is_drawn_by_quarters_and_gaps_are_means(database: object, clock: time_machine.Traveller) -> None:
    now = int(time.time() // 60)
    # The service was away for the hours between, and had been put back from a backup before the last minute.
    ago = {1430: 0, 1429: 600, 120: 1200, 1: 600, 0: 660}
    rows = [
        Minute(minute=now - back, output_tokens=tokens, finished=0, waiting=0, running=0)
        for back, tokens in ago.items()
    ]
    Minute.objects.bulk_create(rows)
    plots = history.plots()
    assert plots["hour"] == {"at": [now * 60], "tokens_per_second": [1], "tasks_per_minute": [0], "waiting": [0]}
    assert min(plots["day"]["tokens_per_second"]) >= 0
    assert len(plots["day"]["at"]) <= 97
    assert plots["day"]["at"] == sorted(plots["day"]["at"])


def test_without_a_past_there_is_nothing_to_draw(database: object) -> None:
    assert history.plots() == {"hour": history._series([]), "day": history._series([]), "failures": {}}
