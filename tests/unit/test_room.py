"""Which engine goes, and who waits or is refused, when there is no room for one more."""

from typing import Any

import pytest

from models_app.engines.loading_rules import LoadingRules
from models_app.engines.room import Decision, Occupant, Refuse, Start, Unload, Wait, decide

GIB = 1 << 30
ONE_AT_ONCE = LoadingRules(max_loaded=1)
ANY = LoadingRules()


def _idle(key: str, seconds: float, needed: int = GIB, taken: int = 0) -> Occupant:
    return Occupant(key, needed, taken, seconds)


def _busy(key: str, needed: int = GIB, taken: int = 0) -> Occupant:
    return Occupant(key, needed, taken, None)


@pytest.mark.parametrize(
    ("needed", "occupants", "rules", "machine", "decision"),
    [
        (GIB, [], ANY, GIB, Start),
        (GIB + 1, [], ANY, GIB, Refuse),
        (0, [_busy("a")], LoadingRules(max_loaded=2), 9 * GIB, Start),
        (0, [_busy("a")], ONE_AT_ONCE, 9 * GIB, Wait),
        # What a loaded engine has not taken yet is spoken for; what it has taken is not counted twice.
        (GIB, [_busy("a", needed=2 * GIB)], ANY, 3 * GIB - 1, Wait),
        (GIB, [_busy("a", needed=2 * GIB)], ANY, 3 * GIB, Start),
        (GIB, [_busy("a", needed=2 * GIB, taken=2 * GIB)], ANY, GIB, Start),
        (GIB, [_busy("a", needed=GIB)], LoadingRules(memory_bytes=2 * GIB), 9 * GIB, Start),
        (GIB, [_busy("a", needed=GIB)], LoadingRules(memory_bytes=2 * GIB - 1), 9 * GIB, Wait),
        (3 * GIB, [_busy("a", needed=GIB)], LoadingRules(memory_bytes=2 * GIB), 9 * GIB, Refuse),
        # It would not be enough if the idle one went, and so it stays.
        (2 * GIB, [_idle("a", 1), _busy("b")], LoadingRules(memory_bytes=2 * GIB), 9 * GIB, Wait),
    ],
)
def test_there_is_room_or_not(
    needed: int, occupants: list[Occupant], rules: LoadingRules, machine: int, decision: type[Decision]
) -> None:
    assert isinstance(decide(needed, occupants, rules, machine), decision)


@pytest.mark.parametrize("rules", [LoadingRules(max_loaded=3), LoadingRules(memory_bytes=3 * GIB)])
def test_the_one_that_was_idle_longest_goes_and_never_a_busy_one(rules: LoadingRules) -> None:
    occupants = [_idle("short", 5), _busy("busy"), _idle("long", 50)]
    assert decide(GIB, occupants, rules, 99 * GIB) == Unload("long")


def test_while_one_is_going_no_other_is_asked_to() -> None:
    leaving = Occupant("leaving", GIB, 0, None, ending=True)
    assert isinstance(decide(GIB, [leaving, _idle("idle", 9)], LoadingRules(max_loaded=2), 99 * GIB), Wait)


def test_a_refusal_names_what_is_needed_and_what_there_is() -> None:
    refusal = decide(5 << 20, [_busy("a", needed=2 << 20)], LoadingRules(memory_bytes=4 << 20), 99 * GIB)
    assert isinstance(refusal, Refuse)
    assert refusal.code == "insufficient_memory"
    assert "5 MB" in refusal.message
    assert "4 MB" in refusal.message


@pytest.mark.parametrize(
    "bad",
    [
        {"keep_alive": -2},
        {"max_loaded": -1},
        {"memory_bytes": -1},
        {"colour": 1},
        {"own_keep_alive": {"a": -2}},
        {"own_keep_alive": 60},
    ],
)
def test_rules_that_cannot_be_meant_are_none(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="rules"):
        LoadingRules.from_dict(bad)
