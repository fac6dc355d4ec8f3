"""Request bodies, error envelopes and row counts, which most tests of the API are about."""

from typing import Any

import httpx

from tests.service import MODEL, Service

CREATING = ("/v1/tasks", "/v1/responses")
CHAT = "/v1/chat/completions"
# More tokens than the demo model's context has.
TOO_LONG = "word " * 9000
STORY = "Write a long story about a lighthouse."

# Not the queue: the job of a scheduled purge comes and goes by itself; `Service.settle` sees that no other is left.
_TABLES = (
    "tasks",
    "task_events",
    "responses",
    "idempotency_keys",
    "task_inputs",
    "task_snapshots",
    "task_journal",
)


def body(text: str = "Hi", **fields: Any) -> dict[str, Any]:
    """Return a request that says a few words, the same ones each time."""
    return {"model": MODEL, "input": text, "temperature": 0, "max_output_tokens": 4, **fields}


def chat(said: str | list[dict[str, Any]] = "Hi", **fields: Any) -> dict[str, Any]:
    """Return the same request as a chat completion: of one message of the user, or of some messages."""
    messages = [{"role": "user", "content": said}] if isinstance(said, str) else said
    return {"model": MODEL, "messages": messages, "temperature": 0, "max_tokens": 4, **fields}


def error(answer: httpx.Response, status: int) -> dict[str, Any]:
    """Return the error of an answer in the protocol's envelope."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"].startswith("application/json")
    envelope = answer.json()
    assert envelope.keys() == {"error"}
    found: dict[str, Any] = envelope["error"]
    assert found.keys() == {"message", "type", "param", "code"}
    assert isinstance(found["message"], str)
    assert found["message"]
    assert isinstance(found["type"], str)
    assert isinstance(found["code"], str)
    assert found["param"] is None or isinstance(found["param"], str)
    assert "Traceback" not in answer.text
    return found


def rows(service: Service) -> dict[str, int]:
    """Return how many rows each table that a request writes to has."""
    return {table: service.sql(f"SELECT count(*) FROM {table}")[0][0] for table in _TABLES}
