"""A task without progress: its worker lives, its engine lives, and nothing more is said of it."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest
from django.conf import settings
from django.db import connection

from clients_app.models import Client
from models_app.engines.base import EngineAddress, ModelSpec
from models_app.engines.client import HostClient
from tasks_app import audit, lifecycle, snapshot
from tasks_app.attempt import Attempt
from tasks_app.models import Task
from tasks_app.states import Status
from tests.service import REPOSITORY, eventually
from tests.store.tasks import log, recover, running, say, types

PATIENCE_SECONDS = 1.0
Start = Callable[..., EngineAddress]


@pytest.fixture(autouse=True)
def _little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "LMSP", replace(settings.LMSP, engine_silence=PATIENCE_SECONDS))


@pytest.fixture
def mute_engine(tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as stack:

        def start(words: int, *options: str) -> EngineAddress:
            address = str(tmp_path / "mute.sock")
            command = [sys.executable, "-m", "tests.store.mute_engine", address, str(words), *options]
            process = stack.enter_context(subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE))
            stack.callback(process.kill)
            assert process.stdout is not None
            pid = int(process.stdout.readline())
            return EngineAddress(address, "mute", slots=4, context_length=512, pid=pid)

        yield start


def _attempt(task: Task, run: lifecycle.Run, engine: EngineAddress) -> Attempt:
    spec = ModelSpec(key="m", path="/m", digest="m")
    return Attempt(run, task, HostClient(settings.LMSP.run_dir), spec, snapshot.load(task.pk), engine)


@pytest.mark.parametrize(
    ("policy", "status", "code"),
    [("fail", Status.FAILED, "engine_silent"), ("retry", Status.QUEUED, ""), ("resume", Status.RUNNING, "")],
)
@pytest.mark.parametrize("words", [0, 3])
def test_a_task_of_which_nothing_is_heard_goes_by_its_policy(
    client: Client, mute_engine: Start, policy: str, status: Status, code: str, words: int
) -> None:
    task, run = running(client, on_restart=policy)
    began = time.monotonic()
    _attempt(task, run, mute_engine(words)).execute()
    assert time.monotonic() - began > PATIENCE_SECONDS
    task.refresh_from_db()
    assert (task.status, task.error_code, task.owner) == (status, code, None)
    assert task.output_tokens == (0 if policy == "retry" else words)
    assert audit.audit(connection.settings_dict["NAME"])["violations"] == []
    if status is not Status.FAILED:
        assert Task.objects.next_claimable() == task


def test_a_run_to_be_resumed_may_wait_for_the_slot_it_had(client: Client, mute_engine: Start) -> None:
    task, run = running(client, on_restart="resume")
    snapshot.note_run(task.pk, 2, "mute")
    say(run, "Once ", "upon ")
    recover(task, "engine_died")
    again = lifecycle.claim(Task.objects.get(pk=task.pk), "somebody", "job", loaded=True, exact=True)
    assert again is not None
    attempt = _attempt(Task.objects.get(pk=task.pk), again, mute_engine(0, "waiting"))
    before = log(task)

    def execute() -> None:
        attempt.execute()
        connection.close()

    thread = Thread(target=execute)
    thread.start()
    thread.join(3 * PATIENCE_SECONDS)
    assert log(task) == before, "others have its slot, and may have it for as long as they like"
    assert lifecycle.cancel(task.pk) is Status.CANCELLING
    eventually(lambda: Task.objects.get(pk=task.pk).status == Status.CANCELLED)
    thread.join(10)
    assert types(task)[-1] == "response.cancelled"
