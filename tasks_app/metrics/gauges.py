"""What is looked up when it is asked for: names, meanings and labels."""

from typing import NamedTuple

from tasks_app.statistics import COUNTERS, HISTOGRAMS, Counter, Histogram


class Gauge(NamedTuple):
    """A number as it is at this moment."""

    name: str
    help: str
    labels: tuple[str, ...] = ()


Metric = Gauge | Counter | Histogram
# By metric and the values of its labels. Of a histogram: by metric, and the series' name with them; see `Counts`.
Samples = dict[Metric, dict[tuple[str, ...], float]]

TASKS = Gauge("lmsp_tasks", "Unfinished tasks.", ("status",))
TASKS_AWAITING_RESUME = Gauge(
    "lmsp_tasks_awaiting_resume",
    "Running tasks that a restart or a worker's death has left, and nobody has claimed yet.",
)
QUEUE_TASKS = Gauge("lmsp_queue_tasks", "Tasks that wait for a worker.", ("priority",))
QUEUE_OLDEST_WAIT = Gauge(
    "lmsp_queue_oldest_wait_seconds", "Age of the oldest task that waits for a worker; 0 when none does.", ("priority",)
)
WORKERS = Gauge("lmsp_workers", "Worker processes that live.")
WORKERS_BUSY = Gauge("lmsp_workers_busy", "Workers that hold a task.")
WORKERS_CONFIGURED = Gauge("lmsp_workers_configured", "Workers that there should be.")
OPEN_STREAMS = Gauge("lmsp_open_streams", "Event streams that callers read at this moment.", ("transport",))

ENGINE_HOST_UP = Gauge("lmsp_engine_host_up", "Whether the engine host answers.")
ENGINE_HOST_START = Gauge("lmsp_engine_host_start_time_seconds", "When the engine host was started, in Unix seconds.")
ENGINE_UP = Gauge("lmsp_engine_up", "Whether a registered model is loaded and served by an engine.", ("model",))
ENGINE_MEMORY = Gauge(
    "lmsp_engine_resident_memory_bytes",
    "Physical memory of a model's engine process, shared pages included.",
    ("model",),
)
ENGINE_START = Gauge(
    "lmsp_engine_start_time_seconds", "When a model's engine was started, in Unix seconds.", ("model",)
)
ENGINE_STARTS = Counter("lmsp_engine_starts_total", "Engine processes started, since the engine host was.", ("model",))
ENGINE_DEATHS = Counter(
    "lmsp_engine_deaths_total", "Engine processes that ended unasked, since the engine host was started.", ("model",)
)

DISK_FREE = Gauge("lmsp_disk_free_bytes", "Free space where the data directory is.")
DISK_SIZE = Gauge("lmsp_disk_size_bytes", "Size of the file system where the data directory is.")
DISK_RESERVE = Gauge("lmsp_disk_reserve_bytes", "Free space below which new work is refused.")
DATABASE_SIZE = Gauge("lmsp_database_size_bytes", "Size of the database's file.")
WAL_SIZE = Gauge("lmsp_database_wal_size_bytes", "Size of the database's write-ahead log.")

READY = Gauge("lmsp_ready", "Whether work can be accepted and run, as /readyz tells it.", ("check",))
START = Gauge("lmsp_start_time_seconds", "When the service was started, in Unix seconds.")
BUILD = Gauge("lmsp_build_info", "Always 1; the labels tell what runs.", ("version", "protocol_version", "python"))
PART_UP = Gauge("lmsp_metrics_part_up", "Whether a part of these metrics could be found out this time.", ("part",))

GAUGES = (
    TASKS,
    TASKS_AWAITING_RESUME,
    QUEUE_TASKS,
    QUEUE_OLDEST_WAIT,
    WORKERS,
    WORKERS_BUSY,
    WORKERS_CONFIGURED,
    OPEN_STREAMS,
    ENGINE_HOST_UP,
    ENGINE_HOST_START,
    ENGINE_UP,
    ENGINE_MEMORY,
    ENGINE_START,
    ENGINE_STARTS,
    ENGINE_DEATHS,
    DISK_FREE,
    DISK_SIZE,
    DISK_RESERVE,
    DATABASE_SIZE,
    WAL_SIZE,
    READY,
    START,
    BUILD,
    PART_UP,
)
METRICS: tuple[Metric, ...] = (*COUNTERS, *HISTOGRAMS, *GAUGES)
