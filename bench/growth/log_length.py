"""What grows with the length of a log: reading it, the response made from it, writing one more event."""

import statistics
from typing import NamedTuple

from bench import asking, costs, followed
from bench.followed import OPENING_EVENTS, Writer
from bench.growth.series import FLAT, LINEAR, Series
from bench.subjects import Subjects

_STEPS = (1_000, 10_000, 100_000)
_OVER = "events of a task"
_SAMPLES = 5
_APPENDED, _RATE = 40, 50
_PAGE_MB = 4 / 1024
"""The least that a process can grow by."""


class _Costs(NamedTuple):
    replay: float
    event: float
    response: float
    append: float
    memory: float


_WHAT = {
    "replay": ("replay of the whole log", "s", LINEAR),
    "event": ("replay, for each event", "µs", FLAT),
    "response": ("GET /v1/responses/{id} while it runs", "ms", LINEAR),
    "append": ("one more commit", "ms", FLAT),
    "memory": ("web server grown by", "MB", LINEAR),
}
"""Of each cost what it is for people, its unit and the exponent that it must not exceed."""


def measure(subjects: Subjects) -> tuple[list[Series], float]:
    """Write a log of each length; return each cost's series, and the cores that others used at most."""
    steps = _STEPS[: subjects.options.growth_steps]
    found = [_measure(subjects, events) for events in steps]
    series = [
        Series(
            f"log_{name}",
            title,
            _OVER,
            unit,
            [(events, getattr(each, name)) for events, (each, _) in zip(steps, found, strict=True)],
            ceiling,
        )
        for name, (title, unit, ceiling) in _WHAT.items()
    ]
    return series, max(foreign for _, foreign in found)


def _measure(subjects: Subjects, events: int) -> tuple[_Costs, float]:
    service = subjects.service
    headers = {"Authorization": f"Bearer {service.token}"}
    with Writer(service) as writer:
        writer.begin(events - OPENING_EVENTS, 0)
        writer.commits()
        writer.begin(_APPENDED, _RATE)
        writer.commits()
        before = followed.web_megabytes(service)
        with followed.readers(service, writer, 1, websocket=False) as reader:
            _, cost = costs.accounted(subjects, lambda: reader.read_until(events + _APPENDED - 1))
        response = asking.times(service.address, f"/v1/responses/{writer.response_id}", headers, _SAMPLES)
        grown = followed.web_megabytes(service) - before
    found = _Costs(
        replay=cost.seconds,
        event=cost.seconds / (events + _APPENDED) * 1e6,
        response=statistics.median(response),
        append=statistics.median(writer.took),
        memory=max(grown, _PAGE_MB),
    )
    return found, cost.foreign / cost.seconds
