"""What grows with the streams that follow a log: how late its events come, processor time, memory."""

from bench import followed
from bench.followed import OPENING_EVENTS, Writer
from bench.growth.series import FLAT, LINEAR, Series
from bench.subjects import Subjects

_STEPS = (1, 10, 100, 1_000)
_OVER = "open streams"
_SECONDS = 5
_RATE = 20
# More than the machine's two cores have time for would measure a queue.
_MOST_DELIVERIES = 5_000
_PAGE_KB = 4
"""The least that a process can grow by."""


def measure(subjects: Subjects) -> tuple[list[Series], float]:
    """Follow one log with each number of streams; return each cost's series, and the cores that others used at most."""
    service = subjects.service
    p50, p99, cpu, memory = [], [], [], []
    foreign = 0.0
    # What the streams of one step have used serves those of the next: the growth is counted from before the first.
    before = followed.web_megabytes(service)
    for streams in _STEPS[: subjects.options.growth_steps]:
        rate = min(_RATE, _MOST_DELIVERIES // streams)
        with Writer(service) as writer, followed.readers(service, writer, streams, websocket=False) as readers:
            readers.read_until(OPENING_EVENTS - 1)
            grown = (followed.web_megabytes(service) - before) * 1024
            came = followed.deliver(subjects, writer, readers, rate * _SECONDS, rate)
        foreign = max(foreign, came.foreign_cores)
        p50.append((streams, came.p50))
        p99.append((streams, came.p99))
        cpu.append((streams, came.web_microseconds))
        memory.append((streams, max(grown, _PAGE_KB) / streams))
    return [
        Series("streams_p50", "commit to client, p50", _OVER, "ms", p50, LINEAR),
        Series("streams_p99", "commit to client, p99", _OVER, "ms", p99, LINEAR),
        Series("streams_cpu", "web, processor time of a delivery", _OVER, "µs", cpu, FLAT),
        Series("streams_memory", "web, memory of a stream", _OVER, "kB", memory, FLAT),
    ], foreign
