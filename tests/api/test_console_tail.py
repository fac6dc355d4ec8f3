"""`manage.py tasks tail`: the text alone on stdout, from its beginning to its end, whatever happens on the way."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.api.console import command, environment, on_terminal, piped
from tests.api.test_commands import answer, run
from tests.service import REPOSITORY, Service, eventually

_STORY = "Write a long story about a lighthouse keeper."


@contextmanager
def _tailing(service: Service, *arguments: str) -> "Iterator[subprocess.Popen[str]]":
    with subprocess.Popen(
        command("tasks", "tail", *arguments),
        cwd=REPOSITORY,
        env=environment(service.data_dir),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as tail:
        try:
            yield tail
        finally:
            tail.kill()


@pytest.fixture(scope="module")
def finished(service: Service) -> dict[str, Any]:
    return service.finished(service.create("Say hello.", max_output_tokens=12)["id"])


def test_a_finished_task_is_replayed(service: Service, finished: dict[str, Any]) -> None:
    done = piped(service.data_dir, "tasks", "tail", finished["id"])
    assert done.returncode == 0
    assert done.stdout == finished["output_text"]
    states = [line.split("] ")[1] for line in done.stderr.splitlines()]
    assert states[0] == "queued"
    assert states[-1].startswith(("completed", "incomplete"))


def test_events_are_printed_as_the_api_has_them(service: Service, finished: dict[str, Any]) -> None:
    done = piped(service.data_dir, "tasks", "tail", finished["id"], "--events")
    assert [json.loads(line) for line in done.stdout.splitlines()] == service.events(finished["id"])


def test_json_is_one_object_at_the_end(service: Service, finished: dict[str, Any]) -> None:
    assert answer(run(service.data_dir, "tasks", "tail", finished["id"], "--json")) == {
        "id": finished["id"],
        "status": "completed",
        "events": finished["last_sequence_number"] + 1,
        "output_text": finished["output_text"],
    }


def test_a_running_task_is_followed_to_its_end(service: Service) -> None:
    task = service.create(_STORY, max_output_tokens=150)["id"]
    with _tailing(service, task) as tail:
        assert tail.stdout is not None
        # Its beginning is there while it still runs.
        begin = tail.stdout.read(1)
        assert service.task(task)["finished_at"] is None
        rest = tail.stdout.read()
        assert tail.wait(30) == 0
    assert begin + rest == service.text_on_disk(task)


def test_a_cancelled_task_ends_it_with_status_1(service: Service) -> None:
    task = service.create(_STORY, max_output_tokens=2000)["id"]
    with _tailing(service, task) as tail:
        assert tail.stdout is not None
        tail.stdout.read(1)
        service.request("POST", f"/v1/tasks/{task}/cancel")
        _, states = tail.communicate(timeout=30)
    assert tail.returncode == 1
    assert "cancelled" in states.splitlines()[-1]


def test_control_c_ends_it_quietly_and_the_task_goes_on(service: Service) -> None:
    task = service.create(_STORY, max_output_tokens=100)["id"]
    with _tailing(service, task) as tail:
        assert tail.stdout is not None
        tail.stdout.read(1)
        tail.send_signal(signal.SIGINT)
        _, said = tail.communicate(timeout=30)
    assert tail.returncode == 130
    assert "Traceback" not in said
    assert service.finished(task)["status"] == "completed"


def test_a_reader_that_has_had_enough_ends_it_quietly(service: Service) -> None:
    task = service.create(_STORY, max_output_tokens=2000)["id"]
    with _tailing(service, task) as tail:
        assert tail.stdout is not None
        assert tail.stderr is not None
        tail.stdout.read(1)
        tail.stdout.close()
        assert tail.wait(30) != 0
        assert "Traceback" not in tail.stderr.read()
        tail.stderr.close()
    service.request("POST", f"/v1/tasks/{task}/cancel")


def test_states_are_dim_lines_of_their_own_on_a_terminal(service: Service, finished: dict[str, Any]) -> None:
    status, drawn = on_terminal(service.data_dir, "tasks", "tail", finished["id"])
    assert status == 0
    assert "\x1b[2m[1] queued\x1b[22m\r\n" in drawn
    assert f"{finished['output_text'].replace(chr(10), chr(13) + chr(10))}\r\n\x1b[2m[" in drawn


def test_a_retry_is_told_and_its_text_starts_anew(own_service: Service) -> None:
    task = own_service.create(_STORY, on_restart="retry", max_output_tokens=60)["id"]
    with _tailing(own_service, task) as tail:
        eventually(lambda: len(own_service.text_on_disk(task)) > 40, 60)
        own_service.kill_child("models_app.engines.process")
        written, states = tail.communicate(timeout=120)
    assert tail.returncode == 0
    assert "queued again for attempt 2: the text starts anew" in states
    assert written == own_service.text_on_disk(task)
    assert written.endswith(own_service.task(task)["output_text"])
    assert len(written) > len(own_service.task(task)["output_text"])


def test_a_stop_and_a_start_are_followed_through(own_service: Service) -> None:
    task = own_service.create(_STORY, max_output_tokens=120)["id"]
    with _tailing(own_service, task) as tail:
        eventually(lambda: own_service.text_on_disk(task), 60)
        assert own_service.process is not None
        own_service.process.kill()
        own_service.process.wait()
        eventually(lambda: own_service.processes() == [tail.pid], 10, "nothing but the reader is left")
        own_service.start()
        written, states = tail.communicate(timeout=120)
    assert tail.returncode == 0
    assert "resumed by attempt 2" in states
    assert written == own_service.task(task)["output_text"]
