"""The engine host: one process for each model, and none that outlives it."""

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from models_app.engines import registry
from models_app.engines.base import EngineAddress, GenerateRequest, ModelSpec
from models_app.engines.client import (
    EngineDied,
    EngineUnavailable,
    Generation,
    HostClient,
    ModelLoadFailed,
    engine_info,
)
from models_app.engines.llamacpp import Tokenizer
from tests.engines.driving import GREEDY, chat_prompt
from tests.service import REPOSITORY, eventually

_WITHOUT_FOLDER = "engine_unavailable" if registry.why_unavailable("exllamav2") else "model_file_missing"
HostProcess = subprocess.Popen[bytes]
pytestmark = pytest.mark.usefixtures("host")


@pytest.fixture
def client(host: HostProcess, run_dir: Path) -> HostClient:
    return HostClient(run_dir)


def _is_dead(pid: int) -> bool:
    """Whether the process has ended, reaped or not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return status.rpartition(")")[2].split()[0] == "Z"


def test_a_model_is_loaded_once_and_then_found(client: HostClient, spec: ModelSpec) -> None:
    assert client.find("demo") is None
    seen: list[float | None] = []
    address = client.ensure_loaded(spec, while_waiting=seen.append)
    assert seen, "the caller was called back"
    assert all(progress is None or 0 <= progress <= 1 for progress in seen)
    assert client.find("demo") == address
    assert client.ensure_loaded(spec) == address
    [model] = client.list()
    assert (model["key"], model["state"], model["pid"]) == ("demo", "ready", address.pid)
    info = engine_info(address)
    assert (info["slots"], info["context_length"], info["busy_slots"]) == (4, 512, 0)
    assert info["fingerprint"] == address.fingerprint


def test_callers_who_ask_at_once_share_one_load(client: HostClient, spec: ModelSpec) -> None:
    addresses: list[EngineAddress] = []
    threads = [threading.Thread(target=lambda: addresses.append(client.ensure_loaded(spec))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(addresses) == 4
    assert len(set(addresses)) == 1


def test_two_models_have_two_processes(client: HostClient, spec: ModelSpec) -> None:
    one = client.ensure_loaded(spec)
    other = client.ensure_loaded(replace(spec, key="other", context_length=256))
    assert one.pid != other.pid
    assert {model["key"] for model in client.list()} == {"demo", "other"}


def test_a_caller_who_loses_patience_leaves_the_load_to_others(client: HostClient, spec: ModelSpec) -> None:
    class Impatient(Exception):
        pass

    def give_up(_progress: float | None) -> None:
        raise Impatient

    with pytest.raises(Impatient):
        client.ensure_loaded(spec, while_waiting=give_up)
    [model] = client.list()
    assert model["state"] == "loading"
    assert client.ensure_loaded(spec).pid == eventually(lambda: client.find("demo")).pid  # type: ignore[union-attr]


def test_an_unloaded_model_is_gone_and_can_be_loaded_again(client: HostClient, spec: ModelSpec) -> None:
    first = client.ensure_loaded(spec)
    assert client.unload("demo")
    assert _is_dead(first.pid)
    assert not client.unload("demo")
    assert client.find("demo") is None
    with pytest.raises(EngineUnavailable):
        engine_info(first)
    assert client.ensure_loaded(spec).pid != first.pid


def test_an_engine_that_dies_is_forgotten_and_started_anew_when_asked_for(
    client: HostClient, spec: ModelSpec, tokenizer: Tokenizer
) -> None:
    first = client.ensure_loaded(spec)
    with Generation(first, GenerateRequest(chat_prompt(tokenizer, "Write a story."), GREEDY)) as generation:
        assert generation.next(10) is not None
        os.kill(first.pid, signal.SIGKILL)
        with pytest.raises(EngineDied):
            _read_to_the_end(generation)
    eventually(lambda: client.find("demo") is None, timeout=5, what="the engine is forgotten")
    assert not Path(first.socket).exists()
    second = client.ensure_loaded(spec)
    assert second.pid != first.pid
    assert second.fingerprint == first.fingerprint


def _read_to_the_end(generation: Generation) -> None:
    while generation.next(10) is not None:
        pass


def test_an_engine_that_dies_while_it_loads_fails_the_load(client: HostClient, spec: ModelSpec) -> None:
    def kill(_progress: float | None) -> None:
        for model in client.list():
            children = Path(f"/proc/{client.ping()}/task/{client.ping()}/children").read_text().split()
            if model["state"] == "loading" and children:
                os.kill(int(children[0]), signal.SIGKILL)

    with pytest.raises(ModelLoadFailed) as failure:
        client.ensure_loaded(spec, while_waiting=kill)
    assert failure.value.code == "engine_died"
    assert client.ensure_loaded(spec).slots == 4


@pytest.mark.parametrize(
    ("content", "changes", "code"),
    [
        (b"", {}, "model_load_failed"),
        (b"GGUF but not really", {}, "model_load_failed"),
        (None, {}, "model_file_missing"),
        (None, {"path": "relative.gguf"}, "invalid_spec"),
        (None, {"engine": "steam"}, "unknown_engine"),
        (None, {"slots": 0}, "invalid_spec"),
        # Either this machine has no such engine, or there is no such folder.
        (None, {"engine": "exllamav2"}, _WITHOUT_FOLDER),
    ],
)
def test_a_bad_model_fails_and_the_host_lives(
    client: HostClient,
    spec: ModelSpec,
    tmp_path: Path,
    content: bytes | None,
    changes: dict[str, object],
    code: str,
) -> None:
    path = tmp_path / "model.gguf"
    if content is not None:
        path.write_bytes(content)
    bad = ModelSpec(**{**spec.to_dict(), "path": str(path), **changes})
    with pytest.raises(ModelLoadFailed) as failure:
        client.ensure_loaded(bad)
    assert failure.value.code == code
    assert str(failure.value)
    assert client.ping()
    eventually(lambda: client.list() == [], timeout=5, what="it is forgotten")


def test_a_killed_host_leaves_no_engine(host: HostProcess, client: HostClient, spec: ModelSpec) -> None:
    addresses = [client.ensure_loaded(spec), client.ensure_loaded(replace(spec, key="other"))]
    host.kill()
    host.wait()
    for address in addresses:
        eventually(partial(_is_dead, address.pid), timeout=5, what="the engine is gone")
    with pytest.raises(EngineUnavailable):
        client.ensure_loaded(spec)


def test_sigterm_ends_everything_within_two_seconds_and_sigint_nothing(
    host: HostProcess, client: HostClient, spec: ModelSpec, run_dir: Path
) -> None:
    address = client.ensure_loaded(spec)
    host.send_signal(signal.SIGINT)
    os.kill(address.pid, signal.SIGINT)
    assert engine_info(address)["slots"] == client.ensure_loaded(spec).slots
    began = time.monotonic()
    host.terminate()
    assert host.wait(timeout=5) == 0
    assert time.monotonic() - began < 2
    assert _is_dead(address.pid)
    assert list(run_dir.iterdir()) == []


def test_a_second_host_for_the_same_directory_refuses(client: HostClient, run_dir: Path) -> None:
    command = [sys.executable, "-m", "models_app.engines.host", "--run-dir", str(run_dir)]
    second = subprocess.run(command, cwd=REPOSITORY, capture_output=True, timeout=20, check=False)
    assert second.returncode == 1
    assert b"already" in second.stderr
    assert client.ping()


def test_a_host_takes_over_from_one_that_was_killed(
    host: HostProcess, client: HostClient, spec: ModelSpec, run_dir: Path
) -> None:
    client.ensure_loaded(spec)
    host.kill()
    host.wait()
    command = [sys.executable, "-m", "models_app.engines.host", "--run-dir", str(run_dir)]
    with subprocess.Popen(command, cwd=REPOSITORY) as second:
        eventually(lambda: _pid(client) == second.pid, timeout=10, what="the second host answers")
        assert client.list() == []
        assert [path.name for path in run_dir.iterdir()] == ["engine-host.sock"]
        second.terminate()


def _pid(client: HostClient) -> int | None:
    try:
        return client.ping()
    except EngineUnavailable:
        return None


def test_the_host_stays_small(host: HostProcess) -> None:
    status = Path(f"/proc/{host.pid}/status").read_text().splitlines()
    resident = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
    assert resident < 32 * 1024  # KiB
    assert "numpy" not in Path(f"/proc/{host.pid}/maps").read_text()
