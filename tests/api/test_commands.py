"""Management commands as scripts use them: on a data directory that is not there yet, with --json."""

import json
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.service import REPOSITORY, Service


def run(data_dir: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "manage.py", *arguments],
        cwd=REPOSITORY,
        env={**os.environ, "LMSP_DATA_DIR": str(data_dir), "LMSP_LOG_LEVEL": "INFO"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def answer(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Return the one JSON object on stdout."""
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def refusal(done: subprocess.CompletedProcess[str]) -> str:
    """Return what a command that cannot do its work says about it: one clear line, and nothing for scripts."""
    assert done.returncode == 1
    assert done.stdout == ""
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("CommandError: ")
    return lines[0]


@pytest.mark.parametrize(
    ("arguments", "keys"),
    [
        (("create_client", "first"), {"client_id", "token", "scopes", "expires_at"}),
        (("list_clients",), {"clients"}),
        (("list_models",), {"models"}),
        (("check_log",), {"tasks", "events", "violations"}),
        (
            ("purge_tasks",),
            {"tasks_deleted", "events_deleted", "idempotency_keys_deleted", "pairings_deleted", "bytes_freed"},
        ),
    ],
)
def test_a_first_command_works_on_nothing(tmp_path: Path, arguments: tuple[str, ...], keys: set[str]) -> None:
    data_dir = tmp_path / "not" / "there yet"
    assert answer(run(data_dir, *arguments, "--json")).keys() == keys
    assert stat.S_IMODE(data_dir.stat().st_mode) == 0o700
    assert stat.S_IMODE((data_dir / "secret_key").stat().st_mode) == 0o600
    assert stat.S_IMODE((data_dir / "db.sqlite3").stat().st_mode) == 0o600
    assert not [path for path in data_dir.iterdir() if path.name.startswith(".")]


def test_a_model_is_added_as_the_first_command(tmp_path: Path, model_path: Path) -> None:
    added = answer(run(tmp_path, "add_model", str(model_path), "--id", "a/b", "--json"))
    assert added.keys() > {"id", "digest", "size_bytes", "format", "context_length", "state", "same_content_as"}
    assert added["id"] == "a/b"
    (copy,) = (tmp_path / "models").iterdir()
    assert copy.stat().st_size == added["size_bytes"] == model_path.stat().st_size


def test_first_commands_at_once_do_not_collide(tmp_path: Path) -> None:
    commands = [("create_client", f"client {number}") for number in range(4)] + [("check_log",), ("purge_tasks",)]
    with ThreadPoolExecutor(len(commands)) as threads:
        done = list(threads.map(lambda command: run(tmp_path, *command, "--json"), commands))
    answers = [answer(one) for one in done]
    assert len({found["client_id"] for found in answers[:4]}) == 4
    assert len(list(tmp_path.glob("secret_key*"))) == 1


def test_what_is_no_model_is_refused_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "garbage.gguf"
    file.write_bytes(b"GGUF" + bytes(range(256)))
    data_dir = tmp_path / "data"
    assert "garbage.gguf" in refusal(run(data_dir, "add_model", str(file), "--id", "garbage", "--json"))
    assert list((data_dir / "models").iterdir()) == []


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert "nowhere.gguf" in refusal(run(tmp_path, "add_model", "/nowhere.gguf", "--id", "x", "--json"))


def test_a_client_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    assert "'all'" in refusal(run(tmp_path, "create_client", "x", "--scopes", "tasks:read,all", "--json"))
    assert "100 characters" in refusal(run(tmp_path, "create_client", "x" * 101, "--json"))


def test_a_client_made_while_serving_is_known_at_once(service: Service) -> None:
    with service.http(token=service.pair("late")) as http:
        assert http.get("/v1/models").status_code == 200


def test_a_model_added_while_serving_is_known_at_once(service: Service, model_path: Path) -> None:
    service.manage("add_model", str(model_path), "--id", "late")
    task = service.create("Hi", model="late", max_output_tokens=2)
    assert service.finished(task["id"])["status"] == "completed"


def test_the_token_of_a_client_is_nowhere_in_the_data_directory(service: Service) -> None:
    token = service.pair("secretive").encode()
    for path in service.data_dir.rglob("*"):
        if path.is_file() and path.parent.name != "models":
            assert token not in path.read_bytes()
    assert token not in service.log.read_bytes()


def test_check_log_and_purge_while_serving(service: Service) -> None:
    service.create("Hi", max_output_tokens=3)
    findings = service.check_log()
    assert findings["tasks"] > 0
    assert service.manage("purge_tasks")["tasks_deleted"] == 0
