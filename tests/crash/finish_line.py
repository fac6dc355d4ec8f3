"""What the tests of a failing storage share: a task caught just before its last commit, and what must hold after it."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from models_app.engines.base import EngineAddress
from models_app.engines.client import HostClient, engine_info
from tests.service import Service, eventually

STORY = "Write a long story about a lighthouse."
# Read for some seconds before the one token that follows, so that the only commit left is the last.
LONG_PROMPT = "Once upon a time there was a lighthouse. " * 45 + "Write this story to its end."
# The longest pause between two tries of a write, and some time for a machine that is busy with tests.
BOUND_SECONDS = 5 + 7


@contextmanager
def lock(service: Service) -> Iterator[sqlite3.Connection]:
    """Hold the write lock, as a backup tool or a forgotten shell would."""
    with closing(sqlite3.connect(service.data_dir / "db.sqlite3", timeout=30, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        yield holder
        holder.execute("ROLLBACK")


def one_token(service: Service, **fields: Any) -> str:
    """Return a running task that will commit nothing more but its end."""
    task: str = service.create(LONG_PROMPT, max_output_tokens=1, seed=1, **fields)["id"]
    eventually(lambda: state(service, task) == ("running", 0), 60, f"{task} is being prefilled")
    return task


def engine_is_done(service: Service) -> bool:
    """Tell whether the engine has nothing to do any more, so that workers have all they need to end their tasks."""
    (model,) = HostClient(service.data_dir / "run").list()
    address = EngineAddress(**{name: model[name] for name in EngineAddress.__dataclass_fields__})
    return bool(engine_info(address)["busy_slots"] == 0)


def state(service: Service, task: str) -> tuple[str, int]:
    """Return status and output tokens, read beside the service."""
    ((status, tokens),) = service.sql("SELECT status, output_tokens FROM tasks WHERE id = ?", task)
    return status, tokens


def check_end(service: Service, task: str, twin: dict[str, Any]) -> None:
    """See that a task has one end, and the output of its undisturbed twin once."""
    done = service.task(task)
    assert (done["status"], done["attempt"]) == ("completed", 1)
    assert (done["output_text"], done["usage"]) == (twin["output_text"], twin["usage"])
    assert service.text_on_disk(task) == twin["output_text"]
    ends = {"response.completed", "response.incomplete", "response.failed", "response.cancelled"}
    types = [event["type"] for event in service.events(task)]
    assert [kind for kind in types if kind in ends] == [types[-1]]


def check_database(service: Service) -> None:
    """See that the audit and SQLite find no fault."""
    service.check_log()
    assert service.sql("PRAGMA integrity_check") == [("ok",)]
