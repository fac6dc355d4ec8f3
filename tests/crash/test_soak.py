"""A short soak: every part of the service is killed once, beside purges and backups, and nothing is lost or changed."""

from pathlib import Path

from tests.crash.harness import Plan, soaking
from tests.crash.sampler import ROLES
from tests.crash.victims import Victim


def test_whatever_is_killed_nothing_is_lost_doubled_or_changed(tmp_path: Path) -> None:
    kills = 4
    plan = Plan(seed=1, rounds=-(-len(Victim) // kills), kills=kills, tasks=6, span=2.5, upkeep=True)
    with soaking(tmp_path / "data", plan) as soak:
        tally = soak.run()
    assert tally.violations == []
    assert tally.kills.total() == plan.rounds * kills
    assert tally.resumed_exactly == tally.resumed > 0
    # What was judged is gone, what was not is there, and each backup was whole; the long soak rests on this.
    assert tally.upkeep["purge_tasks_deleted"] > 0
    assert tally.upkeep["backups"] >= 1
    record = soak.sampler.record
    assert {reading.role for reading in record.readings} == ROLES
    assert all(reading.pss and reading.handles and reading.threads for reading in record.readings)
    assert {kill.victim for kill in record.kills} == set(Victim)
    assert all(size.database for size in record.sizes)
