"""Models whose files have been damaged or removed since they were registered."""

import os
from pathlib import Path

import httpx
import openai
import pytest

from tests.api.bodies import CREATING, TOO_LONG, body, error, rows
from tests.conformance import open_responses
from tests.service import Service
from tests.stream import sse

DAMAGED = "broken/damaged"
REMOVED = "broken/removed"


@pytest.fixture(scope="module", autouse=True)
def broken(service: Service, tmp_path_factory: pytest.TempPathFactory, model_path: Path) -> None:
    """Two models of their own content, registered whole: one then loses half of its weights, the other its file."""
    for number, model_id in enumerate((DAMAGED, REMOVED)):
        source = tmp_path_factory.mktemp("broken") / "model.gguf"
        source.write_bytes(model_path.read_bytes() + bytes([number]))
        service.manage("add_model", str(source), "--id", model_id)
        source.unlink()
    # The web server reads the vocabulary while it is there; the engine comes too late.
    too_long = service.request("POST", "/v1/tasks", json=body(TOO_LONG, model=DAMAGED))
    assert error(too_long, 400)["code"] == "context_length_exceeded"
    damaged = service.data_dir / "models" / "broken--damaged.gguf"
    os.truncate(damaged, damaged.stat().st_size // 2)
    (service.data_dir / "models" / "broken--removed.gguf").unlink()


def test_a_task_whose_model_cannot_be_loaded_fails_and_says_why(service: Service) -> None:
    task = service.finished(service.create("Hi", model=DAMAGED)["id"])
    assert (task["status"], task["output_text"], task["attempt"]) == ("failed", "", 1)
    assert task["error"]["code"] == "model_digest_mismatch"
    assert task["error"]["message"]
    log = service.events(task["id"])
    assert [event["type"] for event in log] == [
        "response.created",
        "response.queued",
        "response.loading",
        "response.failed",
    ]
    assert log[-1]["response"]["error"] == task["error"]
    assert log[-1]["response"]["output"] == []


def test_a_synchronous_response_that_fails_is_a_response(service: Service, http: httpx.Client) -> None:
    answer = http.post("/v1/responses", json=body(model=DAMAGED))
    assert answer.status_code == 200
    response = answer.json()
    assert (response["status"], response["error"]["code"]) == ("failed", "model_digest_mismatch")
    assert response["completed_at"] is None
    open_responses.check_response(response)
    # The engine's words name paths of the machine; a client has no use for them.
    assert str(service.data_dir) not in answer.text


def test_a_stream_that_fails_ends_with_its_terminal_event_and_no_error_event(http: httpx.Client) -> None:
    events = sse.events(sse.read(http, "/v1/responses", method="POST", json=body(model=DAMAGED, stream=True)))
    for event in events:
        open_responses.check_event(event)
    assert events[-1]["type"] == "response.failed"


def test_the_official_client_reads_a_failure(service: Service) -> None:
    with openai.OpenAI(base_url=f"{service.url}/v1", api_key=service.token, max_retries=0) as official:
        response = official.responses.create(model=DAMAGED, input="Hi")
        events = list(official.responses.create(model=DAMAGED, input="Hi", stream=True))
    assert response.status == "failed"
    assert response.error is not None
    assert str(response.error.code) == "model_digest_mismatch"
    assert events[-1].type == "response.failed"


@pytest.mark.parametrize("path", CREATING)
def test_a_model_without_its_file_is_not_accepted_for(service: Service, http: httpx.Client, path: str) -> None:
    service.settle()
    before = rows(service)
    answer = http.post(path, json=body(model=REMOVED), headers={"Idempotency-Key": "removed"})
    found = error(answer, 503)
    assert (found["type"], found["code"]) == ("server_error", "model_file_missing")
    assert str(service.data_dir) not in found["message"]
    assert "retry-after" in answer.headers
    assert rows(service) == before


def test_the_other_models_are_as_good_as_before(service: Service) -> None:
    assert service.finished(service.create("Hi", max_output_tokens=2)["id"])["status"] == "completed"


def test_a_file_that_is_registered_again_is_as_good_as_new(service: Service, model_path: Path, tmp_path: Path) -> None:
    source = tmp_path / "model.gguf"
    source.write_bytes(model_path.read_bytes() + bytes([1]))
    service.manage("add_model", str(source), "--id", REMOVED)
    task = service.finished(service.create("Hi", model=REMOVED, max_output_tokens=2)["id"])
    assert task["status"] == "completed"
