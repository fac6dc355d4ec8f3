"""A short soak: every part of the service is killed once under load, and nothing is lost, doubled or changed."""

from pathlib import Path

from tests.crash.harness import Plan, soaking
from tests.crash.victims import Victim


def test_whatever_is_killed_nothing_is_lost_doubled_or_changed(tmp_path: Path) -> None:
    kills = 4
    plan = Plan(seed=1, rounds=-(-len(Victim) // kills), kills=kills, tasks=6, span=2.5)
    with soaking(tmp_path / "data", plan) as soak:
        tally = soak.run()
    assert tally.violations == []
    assert tally.kills.total() == plan.rounds * kills
    assert tally.resumed_exactly == tally.resumed > 0
