"""kill -9 before any statement of a request: nothing of its task is there or all of it, and who asks again joins it."""

import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count, takewhile
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connections

from clients_app.models import Client
from models_app import catalog
from tasks_app import audit

_REPOSITORY = Path(__file__).parents[2]
_MODEL = "killed"
_BODY = {"model": _MODEL, "input": "Hi", "background": True, "temperature": 0, "max_output_tokens": 4}
_BEFORE_THE_ANSWER = -1

Accept = Callable[[str, int], list[Any] | None]


@pytest.fixture
def prepared(database: Path, model_path: Path, tmp_path: Path) -> Iterator[tuple[dict[str, Any], str, Path]]:
    """What the process is told of the model, a client's token, and a copy of the database to begin each time with."""
    model = catalog.register(model_path, _MODEL)
    _, token = Client.pair("killed", ["tasks:write", "responses:write"])
    connections.close_all()
    copy = tmp_path / "before.sqlite3"
    shutil.copy(database, copy)
    told = ("id", "file", "digest", "engine", "files", "stamps", "file_state")
    yield {name: getattr(model, name) for name in told}, token, copy
    model.path.unlink()


@pytest.fixture
def accept(prepared: tuple[dict[str, Any], str, Path]) -> Iterator[Accept]:
    """Have a request accepted by a process that is killed before one of its statements."""
    model, token, _ = prepared
    with subprocess.Popen(
        [sys.executable, "-m", "tests.store.accepting", json.dumps(model)],
        cwd=_REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        stdin, stdout = process.stdin, process.stdout
        assert stdout.readline() == "ready\n"

        def ask(path: str, killed_at: int) -> list[Any] | None:
            request = {"path": path, "token": token, "key": "the key", "body": _BODY, "killed_at": killed_at}
            print(json.dumps(request), file=stdin, flush=True)
            answer: list[Any] | None = json.loads(stdout.readline())
            return answer

        yield ask
        stdin.close()
        assert process.wait(10) == 0


def _rows(database: Path) -> dict[str, int]:
    """Return how many rows each table has that has any."""
    with closing(sqlite3.connect(database)) as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        counts = {name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for (name,) in names}
    return {name: count for name, count in counts.items() if count}


def _restore(database: Path, copy: Path) -> None:
    for suffix in ("-wal", "-shm"):
        Path(f"{database}{suffix}").unlink(missing_ok=True)
    shutil.copy(copy, database)


@pytest.mark.parametrize("path", ["/v1/tasks", "/v1/responses"])
def test_R1_a_kill_before_any_statement_leaves_nothing_or_the_whole_task(
    path: str, prepared: tuple[dict[str, Any], str, Path], accept: Accept
) -> None:
    database, copy = settings.LMSP.database, prepared[2]
    nothing = _rows(database)
    undisturbed = accept(path, 0)
    assert undisturbed is not None
    assert undisturbed[0] == 202, undisturbed
    whole = _rows(database)
    assert {name: whole[name] - nothing.get(name, 0) for name in ("tasks", "task_events", "idempotency_keys")} == {
        "tasks": 1,
        "task_events": 2,
        "idempotency_keys": 1,
    }

    def killed(statement: int) -> dict[str, int] | None:
        _restore(database, copy)
        if accept(path, statement) is not None:
            return None
        left = _rows(database)
        assert left in (nothing, whole), f"killed before statement {statement}"
        again = accept(path, 0)
        assert again is not None
        assert again[0] == 202
        assert again[1].get("idempotent-replayed") == ("true" if left == whole else None)
        assert _rows(database) == whole
        assert audit.audit(database)["violations"] == []
        return left

    kills = list(takewhile(bool, map(killed, count(1))))
    # BEGIN, a row in each of eight tables, COMMIT.
    assert kills.count(nothing) >= 10
    assert killed(_BEFORE_THE_ANSWER) == whole
