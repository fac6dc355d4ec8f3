"""What tests of conversations share: turns, prompts, lists of items."""

from typing import Any

import httpx

from tests.api.bodies import body
from tests.service import Service

CALL = {"type": "function_call", "call_id": "call_1", "name": "look_up", "arguments": '{"word":"sea"}'}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "water"}


def say(http: httpx.Client, said: Any = "Hi", **fields: Any) -> dict[str, Any]:
    """Create a response of one token and return it."""
    answer = http.post("/v1/responses", json=body() | {"input": said, "max_output_tokens": 1, **fields})
    assert answer.status_code == 200, answer.text
    response: dict[str, Any] = answer.json()
    return response


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def prompt(service: Service, response: dict[str, Any]) -> bytes:
    """Return the token ids that the model was given for a response."""
    task_id = response["lmsp"]["task_id"]
    tokens: bytes = service.sql("SELECT prompt FROM task_snapshots WHERE task_id = ?", task_id)[0][0]
    assert len(tokens) == 4 * response["usage"]["input_tokens"]
    return tokens


def input_items(http: httpx.Client, response: dict[str, Any], **parameters: Any) -> list[dict[str, Any]]:
    """Return what a response answers, oldest first unless asked otherwise."""
    answer = http.get(f"/v1/responses/{response['id']}/input_items", params={"order": "asc", **parameters})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["data"]
    return found


def text_of(item: dict[str, Any]) -> str:
    return "".join(part["text"] for part in item["content"])
