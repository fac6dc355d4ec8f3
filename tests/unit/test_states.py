"""The state machine, as data."""

from lmsp_site.models import RestartPolicy
from tasks_app.states import (
    ENTERED_FROM,
    FINISHED,
    RECOVERY,
    RESPONSE_STATUS,
    STATE_ANNOUNCED_BY,
    TERMINAL_EVENTS,
    UNFINISHED,
    EventType,
    Status,
    may_enter,
)


def test_every_state_is_described() -> None:
    assert set(ENTERED_FROM) == set(Status)
    assert set(RESPONSE_STATUS) == set(Status)
    assert set(STATE_ANNOUNCED_BY.values()) == set(Status)


def test_nothing_leaves_a_finished_state() -> None:
    for origins in ENTERED_FROM.values():
        assert not origins & FINISHED


def test_cancelling_ends_in_cancelled_alone() -> None:
    assert [new for new in Status if may_enter(new, Status.CANCELLING)] == [Status.CANCELLED]


def test_terminal_events_are_those_of_finished_states() -> None:
    assert {
        EventType.COMPLETED,
        EventType.INCOMPLETE,
        EventType.FAILED,
        EventType.CANCELLED,
    } == TERMINAL_EVENTS


def test_recovery_table_is_that_of_chapter_11() -> None:
    table = {
        "queued": ("failed", "queued", "queued"),
        "loading": ("failed", "queued", "queued"),
        "running": ("failed", "queued", "running"),
        "cancelling": ("cancelled", "cancelled", "cancelled"),
    }
    assert set(RECOVERY) == UNFINISHED
    for status, outcomes in RECOVERY.items():
        assert tuple(outcomes[policy] for policy in RestartPolicy) == table[status]
