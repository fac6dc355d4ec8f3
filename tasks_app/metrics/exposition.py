"""The metrics as Prometheus reads them: the only file that knows its client library.

Its multiprocess mode is not used: it maps files into memory, and a write to one of those on a full disk ends the
process. What is counted comes from the database instead, whichever process is asked.
"""

import logging
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from django.db import DatabaseError
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import choose_encoder

from models_app.engines.client import EngineUnavailable
from tasks_app.metrics import database, gauges, machine
from tasks_app.metrics.gauges import METRICS, Gauge, Metric, Samples
from tasks_app.statistics import Counter, Histogram

logger = logging.getLogger(__name__)

_FAULTS = (sqlite3.Error, DatabaseError, OSError, EngineUnavailable)


class _Collector:
    """Finds everything out anew each time."""

    def collect(self) -> Iterator[Family]:
        """Yield every metric; one about which nothing is known has no samples."""
        samples = take()
        for metric in METRICS:
            yield _family(metric, samples.get(metric, {}))


def take() -> Samples:
    """Return what can be found out, in less than 2 seconds whatever is locked, hangs or is gone."""
    samples: Samples = {}
    models: dict[str, str] = {}
    parts: dict[str, Callable[[], None]] = {
        "machine": lambda: machine.look(samples),
        "database": lambda: database.read(samples, models),
        "engines": lambda: machine.ask_engines(samples, models),
    }
    samples[gauges.PART_UP] = {(part,): _succeeds(part, look) for part, look in parts.items()}
    return samples


def encode(accept: str) -> tuple[bytes, str]:
    """Return the metrics in the format that an ``Accept`` header asks for, and its media type."""
    encoder, media_type = choose_encoder(accept)
    return encoder(_registry), media_type


def _succeeds(part: str, look: Callable[[], None]) -> bool:
    try:
        look()
    except _FAULTS as error:
        logger.warning("metrics are incomplete", extra={"part": part, "error": str(error)})
        return False
    return True


def _family(metric: Metric, series: dict[tuple[str, ...], float]) -> Family:
    if isinstance(metric, Histogram):
        return _histogram(metric, series)
    kind: Any = {Gauge: GaugeMetricFamily, Counter: CounterMetricFamily}[type(metric)]
    family: Family = kind(metric.name, metric.help, labels=metric.labels)
    for labels, value in series.items():
        family.add_metric(labels, value)  # type: ignore[attr-defined]
    return family


def _histogram(metric: Histogram, series: dict[tuple[str, ...], float]) -> Family:
    family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
    sums: dict[tuple[str, ...], float] = {}
    counted: defaultdict[tuple[str, ...], dict[str, float]] = defaultdict(dict)
    for key, value in series.items():
        if key[0] == metric.sum:
            sums[key[1:]] = value
        else:
            counted[key[1:-1]][key[-1]] = value
    for labels, total in sums.items():
        below = 0.0
        buckets = []
        for bound in (*map(str, metric.bounds), "+Inf"):
            below += counted[labels].get(bound, 0)
            buckets.append((bound, below))
        family.add_metric(labels, buckets, total)
    return family


_registry = CollectorRegistry(auto_describe=False)
_registry.register(_Collector())
