"""R3 under fire: whatever a cancel meets, exactly one of them wins, and everybody was told the truth."""

import random
import threading
from pathlib import Path

from tests.crash.callers import Caller, Order
from tests.crash.catalogue import twins
from tests.crash.races import race
from tests.crash.readers import WAYS
from tests.crash.verdict import judge, stored
from tests.service import Service

_SHORT = ("greedy short", "greedy to its end", "seeded short")
_SPAN_SECONDS = 3.0


def test_R3_races_between_threads_have_one_winner_each(database: Path) -> None:
    outcome = race(seed=1, count=200)
    assert outcome.violations == []
    assert outcome.winners.total() == 200
    # Neither side is always too late, so that there was a race at all.
    assert {contest.rpartition(": ")[2] for contest in outcome.winners} == {"cancelled", "completed", "failed"}


def test_R3_races_on_a_running_service_have_one_winner_each(own_service: Service) -> None:
    rng, abort = random.Random(1), threading.Event()
    orders = [
        Order(
            mark=f"race-{number}",
            request=rng.choice(_SHORT),
            policy="resume",
            at=rng.uniform(0, _SPAN_SECONDS),
            keyed=False,
            way=rng.choice(list(WAYS)),
            cancel_after=rng.uniform(0, _SPAN_SECONDS),
            cancellers=rng.choice([1, 2, 4]),
        )
        for number in range(24)
    ]
    texts = twins(own_service, _SHORT)
    with own_service.http() as http:
        callers = [Caller(own_service, http, order, abort) for order in orders]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join(120)
            assert not caller.is_alive()
            assert len(caller.cancel_answers) == caller.order.cancellers
            own_service.finished(str(caller.task_id))
            assert caller.reader is not None
            caller.reader.join(60)
    tasks = stored(own_service, "race")
    assert list(judge(callers, tasks, texts)) == []
    assert len(tasks) == len(orders)
    own_service.check_log()
