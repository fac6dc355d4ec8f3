"""GET /metrics: what has happened, as Prometheus reads it."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as families

from tasks_app.metrics.gauges import METRICS
from tests.api.bodies import STORY, body, error
from tests.service import MODEL, REPOSITORY, Service, eventually
from tests.stream import sse
from tests.stream.test_websocket import socket

BOUND_SECONDS = 2
_ANOTHER_PROCESS = """
import django
django.setup()
from tasks_app.metrics import exposition
print(exposition.encode("")[0].decode(), end="")
"""
Scraped = dict[tuple[str, frozenset[tuple[str, str]]], float]


def text_of(service: Service) -> str:
    answer = httpx.get(f"{service.url}/metrics", timeout=10)
    assert answer.status_code == 200, answer.text
    return answer.text


def scrape(service: Service) -> Scraped:
    return parse(text_of(service))


def parse(text: str) -> Scraped:
    """Return every sample, by its name and labels; fail on any that stands there twice."""
    samples = [sample for family in families(text) for sample in family.samples]
    found = {(sample.name, frozenset(sample.labels.items())): sample.value for sample in samples}
    assert len(found) == len(samples)
    return found


def value(scraped: Scraped, name: str, **labels: str) -> float | None:
    return scraped.get((name, frozenset(labels.items())))


def grown(before: Scraped, after: Scraped, *names: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Return which samples of some names have grown, and by how much."""
    return {
        key: now - before.get(key, 0) for key, now in after.items() if key[0] in names and now != before.get(key, 0)
    }


def sample(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


@pytest.fixture
def before(service: Service) -> Scraped:
    """What was counted before the test, when nothing was at work any more."""
    service.settle()
    return scrape(service)


def test_it_is_what_prometheus_reads_and_asks_for_no_credential(service: Service) -> None:
    answer = httpx.get(f"{service.url}/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    names = [family.name.removesuffix("_total") for family in families(answer.text)]
    assert names == [metric.name.removesuffix("_total") for metric in METRICS]
    for name in ("application/openmetrics-text; version=1.0.0", "application/openmetrics-text"):
        answer = httpx.get(f"{service.url}/metrics", headers={"Accept": name})
        assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
        assert len(list(openmetrics_families(answer.text))) == len(METRICS)  # type: ignore[no-untyped-call]
    for accept in ("text/html", "application/json"):
        answer = httpx.get(f"{service.url}/metrics", headers={"Accept": accept})
        assert answer.headers["content-type"].startswith("text/plain")


def test_it_answers_to_head_and_to_nothing_that_would_change_it(service: Service) -> None:
    answer = httpx.head(f"{service.url}/metrics")
    assert (answer.status_code, answer.content) == (200, b"")
    assert error(httpx.post(f"{service.url}/metrics"), 405)["code"] == "method_not_allowed"


def test_counters_move_by_what_has_happened(service: Service, before: Scraped) -> None:
    """One task completes, one is cut off by its limit, one is cancelled while it runs, one expires."""
    whole = service.finished(service.create("Say hello.", priority="interactive")["id"])
    cut = service.finished(service.create("Hi", max_output_tokens=4)["id"])
    assert (whole["status"], cut["status"]) == ("completed", "completed")
    cancelled = service.create(STORY, max_output_tokens=1500, priority="batch")["id"]
    expired = service.create(STORY, max_output_tokens=1500, expires_at=int(time.time()) + 3600)["id"]
    eventually(lambda: min(service.task(task)["usage"]["output_tokens"] for task in (cancelled, expired)) > 2, 60)
    service.request("POST", f"/v1/tasks/{cancelled}/cancel")
    service.sql("UPDATE tasks SET expires_at = '2020-01-01 00:00:00' WHERE id = ?", expired)
    tasks = [whole, cut, service.finished(cancelled), service.finished(expired)]
    assert [task["status"] for task in tasks[2:]] == ["cancelled", "failed"]
    # What a run has measured that was broken off follows after its end.
    firsts, means = "lmsp_first_token_seconds_count", "lmsp_time_per_output_token_seconds_count"
    eventually(lambda: list(grown(before, scrape(service), firsts).values()) == [4], what="four first tokens")
    service.settle()
    after = scrape(service)

    assert grown(before, after, "lmsp_tasks_finished_total") == {
        sample("lmsp_tasks_finished_total", model=MODEL, status="completed", code=""): 1,
        sample("lmsp_tasks_finished_total", model=MODEL, status="completed", code="max_output_tokens"): 1,
        sample("lmsp_tasks_finished_total", model=MODEL, status="cancelled", code=""): 1,
        sample("lmsp_tasks_finished_total", model=MODEL, status="failed", code="expired"): 1,
    }
    priorities = Counter(task["priority"] for task in tasks)
    for name in ("lmsp_tasks_created_total", "lmsp_task_wait_seconds_count"):
        by_priority = {dict(labels)["priority"]: by for (_, labels), by in grown(before, after, name).items()}
        assert by_priority == priorities
    for kind in ("input", "output"):
        tokens = sum(task["usage"][f"{kind}_tokens"] for task in tasks)
        assert list(grown(before, after, f"lmsp_{kind}_tokens_total").values()) == [tokens]
    assert list(grown(before, after, means).values()) == [2], "of the runs that came to their end"
    commits = list(grown(before, after, "lmsp_commit_seconds_count").values())
    assert len(commits) == 1
    deltas = [event for task in tasks for event in service.events(task["id"]) if event["type"].endswith("text.delta")]
    assert 0 < commits[0] <= sum(task["usage"]["output_tokens"] for task in tasks)
    assert len(deltas) <= commits[0] + 4, "each end may have written one more"
    for name in ("lmsp_resumes_total", "lmsp_tasks_recovered_total"):
        assert not grown(before, after, name)


def test_every_process_tells_the_same(service: Service, before: Scraped) -> None:
    """A second web process would be asked as often as the first."""
    done = subprocess.run(
        [sys.executable, "-c", _ANOTHER_PROCESS],
        cwd=REPOSITORY,
        env=service.environment,
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        check=True,
    )
    changing = ("lmsp_disk_free_bytes", "lmsp_engine_resident_memory_bytes", "lmsp_database_wal_size_bytes")
    for other in (scrape(service), parse(done.stdout)):
        assert {key for key in before.keys() | other.keys() if before.get(key) != other.get(key)} <= {
            key for key in before if key[0] in changing
        }


def test_what_is_there_at_this_moment(service: Service) -> None:
    service.finished(service.create("Hi", max_output_tokens=1)["id"])
    service.settle()
    found = scrape(service)
    for status in ("queued", "loading", "running", "cancelling"):
        assert value(found, "lmsp_tasks", status=status) == 0
    for check in ("database", "runner", "disk"):
        assert value(found, "lmsp_ready", check=check) == 1
    for part in ("database", "engines", "machine"):
        assert value(found, "lmsp_metrics_part_up", part=part) == 1
    assert value(found, "lmsp_workers") == value(found, "lmsp_workers_configured") == 4
    assert value(found, "lmsp_workers_busy") == 0
    assert value(found, "lmsp_engine_up", model=MODEL) == value(found, "lmsp_engine_host_up") == 1
    assert (value(found, "lmsp_engine_starts_total", model=MODEL) or 0) >= 1
    assert (value(found, "lmsp_engine_resident_memory_bytes", model=MODEL) or 0) > 50e6
    assert value(found, "lmsp_database_size_bytes") == (service.data_dir / "db.sqlite3").stat().st_size
    assert value(found, "lmsp_disk_reserve_bytes") == 64 << 20
    assert (value(found, "lmsp_disk_free_bytes") or 0) > 0
    now = time.time()
    host, engine = (
        value(found, "lmsp_engine_host_start_time_seconds"),
        value(found, "lmsp_engine_start_time_seconds", model=MODEL),
    )
    started = value(found, "lmsp_start_time_seconds")
    assert started
    assert host
    assert engine
    assert now - 24 * 3600 < started <= host < engine < now + 1


def test_busy_workers_and_a_queue(service: Service, http: httpx.Client) -> None:
    service.settle()
    tasks = [service.create(STORY, max_output_tokens=1000)["id"] for _ in range(4)]
    eventually(lambda: value(scrape(service), "lmsp_workers_busy") == 4, 60)
    tasks += [service.create(STORY, priority="batch")["id"] for _ in range(2)]
    found = scrape(service)
    assert value(found, "lmsp_queue_tasks", priority="batch") == value(found, "lmsp_tasks", status="queued") == 2
    assert (value(found, "lmsp_queue_oldest_wait_seconds", priority="batch") or 0) > 0
    # Seen while they are being generated, and not at their end alone.
    first = value(found, "lmsp_output_tokens_total", model=MODEL) or 0
    eventually(lambda: (value(scrape(service), "lmsp_output_tokens_total", model=MODEL) or 0) > first, 60)
    for task in reversed(tasks):
        http.post(f"/v1/tasks/{task}/cancel")


@pytest.fixture
def waiting(service: Service, http: httpx.Client) -> Iterator[str]:
    """A task of which there is nothing to tell before it is cancelled."""
    service.settle()
    task = service.create(STORY, max_output_tokens=1500)["id"]
    yield task
    http.post(f"/v1/tasks/{task}/cancel")


def test_streams_are_counted_while_they_are_open(service: Service, http: httpx.Client, waiting: str) -> None:
    def open_streams() -> tuple[float | None, ...]:
        found = scrape(service)
        return tuple(value(found, "lmsp_open_streams", transport=name) for name in ("sse", "websocket"))

    eventually(lambda: open_streams() == (0, 0))
    with sse.stream(http, f"/v1/tasks/{waiting}/events") as frames, socket(service, waiting) as opened:
        next(frames)
        opened.recv(timeout=60)
        assert open_streams() == (1, 1)
        with sse.stream(http, "/v1/responses", method="POST", json=body(stream=True)) as other:
            next(other)
            eventually(lambda: open_streams()[0] == 2)
            list(other)
        eventually(lambda: open_streams() == (1, 1))
    eventually(lambda: open_streams() == (0, 0))


def test_counts_survive_a_kill_and_what_goes_on_is_counted_once(own_service: Service) -> None:
    service = own_service
    resumed = service.create(STORY, max_output_tokens=40, on_restart="resume")["id"]
    failed = service.create(STORY, max_output_tokens=1000, on_restart="fail")["id"]
    eventually(lambda: min(service.task(task)["usage"]["output_tokens"] for task in (resumed, failed)) > 4, 60)
    seen = scrape(service)
    service.kill()
    service.start()
    tasks = [service.finished(task) for task in (resumed, failed)]
    service.settle()
    found = scrape(service)
    assert value(found, "lmsp_resumes_total", exact="true") == 1
    assert value(found, "lmsp_resumes_total", exact="false") == 0
    recovered = {"cause": "server_restarted", "status": "running"}
    assert value(found, "lmsp_tasks_recovered_total", policy="resume", outcome="running", **recovered) == 1
    assert value(found, "lmsp_tasks_recovered_total", policy="fail", outcome="failed", **recovered) == 1
    for kind in ("input", "output"):
        tokens = sum(task["usage"][f"{kind}_tokens"] for task in tasks)
        assert value(found, f"lmsp_{kind}_tokens_total", model=MODEL) == tokens
    for (name, labels), number in seen.items():
        if name.startswith(("lmsp_tasks_", "lmsp_input_", "lmsp_output_", "lmsp_task_wait")) and name != "lmsp_tasks":
            assert found.get((name, labels), 0) >= number or name == "lmsp_tasks_awaiting_resume", name

    # An engine host that hangs, and then is gone.
    hosts = [pid for pid in service.processes() if b"engines.host" in cmdline(pid)]
    for host in hosts:
        os.kill(host, signal.SIGSTOP)
    began = time.monotonic()
    hanging = scrape(service)
    assert time.monotonic() - began < BOUND_SECONDS
    assert value(hanging, "lmsp_engine_host_up") == value(hanging, "lmsp_ready", check="runner") == 0
    assert value(hanging, "lmsp_engine_up", model=MODEL) == 0
    assert value(hanging, "lmsp_tasks", status="running") == 0
    assert value(hanging, "lmsp_output_tokens_total", model=MODEL) == sum(
        task["usage"]["output_tokens"] for task in tasks
    )
    for host in hosts:
        os.kill(host, signal.SIGCONT)
    service.kill_child("models_app.engines.process")
    eventually(lambda: value(scrape(service), "lmsp_engine_deaths_total", model=MODEL) == 1)


def cmdline(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()
