"""What a long soak says of memory, handles and files: what grows is found, and what kills do is no growth."""

from itertools import groupby
from pathlib import Path

import pytest

from tests.crash import figure, growth
from tests.crash.deck import EVERYBODY, stage
from tests.crash.growth import Growth
from tests.crash.record import Kill, Reading, Record, Sizes
from tests.crash.victims import FATAL, Victim

_MINUTES = 30


def _record(*, leak: float = 0.0, handles: float = 0.0, database: float = 0.0) -> Record:
    """Half an hour with a web process that lives and workers that are killed every two minutes.

    Args:
        leak: bytes that the web process takes each second.
        handles: that it opens each second.
        database: bytes that the file grows by each second.
    """
    record = Record()
    for second in range(0, _MINUTES * 60, 2):
        web = int(90e6 + leak * second)
        record.readings.append(Reading(second, "web", 10, web, 2 * web, int(30 + handles * second), 7))
        # Young ones are smaller.
        worker = int(30e6 + 50_000 * (second % 120))
        record.readings += [Reading(second, "worker", 100 + second // 120 + n, worker, worker, 20, 2) for n in (0, 1)]
        record.sizes.append(Sizes(second, int(5e6 + database * second), 4_000_000))
        if second % 120 == 0:
            record.kills.append(Kill(second, "busy worker"))
    return record


def _grown(record: Record) -> set[tuple[str, str]]:
    found = [*growth.of_run(record), *growth.of_lives(record, 240)]
    return {(one.subject.split()[0], one.quantity) for one in found if not one.is_flat}


def test_nothing_grows_where_nothing_grows() -> None:
    assert _grown(_record()) == set()


@pytest.mark.parametrize(
    ("leaking", "found"),
    [
        ({"leak": 20_000}, {("web", "memory")}),
        ({"handles": 0.005}, {("web", "handles")}),
        ({"database": 10_000}, {("database", "size")}),
    ],
)
def test_what_grows_is_found(leaking: dict[str, float], found: set[tuple[str, str]]) -> None:
    assert _grown(_record(**leaking)) == found


def test_a_process_that_grows_is_found_though_its_role_does_not() -> None:
    record = _record()
    # A restart in the middle: over the whole run the second quarter is as high as the last.
    half = _MINUTES * 30
    record.readings = [
        Reading(r.seconds, r.role, 11 if r.seconds >= half else 10, int(90e6 + 50_000 * (r.seconds % half)), 1, 30, 7)
        for r in record.readings
        if r.role == "web"
    ]
    assert all(one.is_flat for one in growth.of_run(record))
    assert _grown(record) == {("web", "memory")}


@pytest.mark.parametrize(
    ("quantity", "before", "most"),
    [("memory", 100e6, 115e6), ("size", 0, 5e6), ("handles", 30, 33), ("threads", 7, 10)],
)
def test_what_is_allowed(quantity: str, before: float, most: float) -> None:
    assert Growth("x", quantity, before, most).is_flat
    assert not Growth("x", quantity, before, most + 1).is_flat


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    record = _record()
    record.save(tmp_path)
    assert Record.load(tmp_path) == record


def test_the_figure_is_small_and_says_what_it_shows(tmp_path: Path) -> None:
    path = tmp_path / "figures" / "soak.svg"
    figure.draw(_record(), path)
    assert path.stat().st_size < 150_000
    drawn = path.read_text()
    assert all(word in drawn for word in ("web", "worker", "Open handles", "write-ahead log"))


def test_in_a_long_run_everybody_is_killed_and_everybody_lives_long() -> None:
    stages = [stage(second / (_MINUTES * 60)) for second in range(_MINUTES * 60)]

    def spared(victim: Victim) -> int:
        """Return the longest time, in seconds, for which it is not killed."""
        spells = groupby(stages, key=lambda members: victim in members)
        return max(len(list(spell)) for killed, spell in spells if not killed)

    assert set().union(*stages) == EVERYBODY
    for lasting in (*FATAL, Victim.WEB, Victim.HOST, Victim.CLUSTER, Victim.GUARD):
        assert spared(lasting) >= 8 * 60
    assert spared(Victim.ENGINE) >= 7 * 60
    assert spared(Victim.BUSY_WORKER) >= 5 * 60
