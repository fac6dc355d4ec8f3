"""The official `openai` package, unmodified, where the service refuses."""

from typing import Any

import openai
import pytest
from openai import OpenAI

from tests.api.bodies import STORY, TOO_LONG
from tests.clients.line import Line
from tests.service import MODEL, Service


@pytest.mark.parametrize(
    ("request_", "kind", "status", "code"),
    [
        ({"model": "unknown"}, openai.NotFoundError, 404, "model_not_found"),
        ({"temperature": 9}, openai.BadRequestError, 400, "invalid_value"),
        ({"input": TOO_LONG}, openai.BadRequestError, 400, "context_length_exceeded"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_is_an_exception_of_its_kind(
    official: OpenAI,
    request_: dict[str, Any],
    kind: type[openai.APIStatusError],
    status: int,
    code: str,
    *,
    stream: bool,
) -> None:
    with pytest.raises(kind) as refused:
        official.responses.create(**{"model": MODEL, "input": "Hi", **request_}, stream=stream)
    assert (refused.value.status_code, refused.value.code) == (status, code)
    assert refused.value.type == ("not_found_error" if status == 404 else "invalid_request_error")
    assert refused.value.message


def test_what_is_still_running_is_a_conflict(official: OpenAI) -> None:
    running = official.responses.create(model=MODEL, input=STORY, max_output_tokens=1000, background=True)
    with pytest.raises(openai.ConflictError) as refused:
        official.responses.create(model=MODEL, input="And?", previous_response_id=running.id)
    assert refused.value.code == "response_not_finished"
    with pytest.raises(openai.ConflictError) as refused:
        # Its own retries would have the same answer, and take seconds.
        official.with_options(max_retries=2).responses.delete(running.id)
    assert refused.value.code == "task_not_finished"
    assert refused.value.request.headers["x-stainless-retry-count"] == "0"
    official.responses.cancel(running.id)


def test_who_may_not_is_told_by_exceptions(line: Line, service: Service) -> None:
    with (
        OpenAI(base_url=f"{line.url}/v1", api_key="lmsp_wrong", max_retries=0) as unknown,
        pytest.raises(openai.AuthenticationError) as refused,
    ):
        unknown.models.list()
    assert refused.value.code == "invalid_token"
    token = service.pair("reader", "models:read")
    with OpenAI(base_url=f"{line.url}/v1", api_key=token, max_retries=0) as reader:
        with pytest.raises(openai.PermissionDeniedError):
            reader.responses.create(model=MODEL, input="Hi")
        with pytest.raises(openai.PermissionDeniedError):
            reader.responses.retrieve("resp_unknown")
        assert reader.models.list().data


def test_a_key_used_twice_is_an_exception(official: OpenAI) -> None:
    def create(text: str) -> Any:
        return official.responses.create(
            model=MODEL, input=text, max_output_tokens=1, extra_headers={"Idempotency-Key": "official"}
        )

    assert create("Hi") == create("Hi")
    with pytest.raises(openai.UnprocessableEntityError) as refused:
        create("Hello")
    assert refused.value.code == "idempotency_key_reused"


def test_what_the_client_sends_again_after_a_timeout_is_the_same_task(line: Line, service: Service) -> None:
    def impatient_once(request: Any) -> None:
        if request.headers["x-stainless-retry-count"] == "0":
            request.extensions["timeout"] = {"read": 0.05}

    with (
        openai.DefaultHttpxClient(event_hooks={"request": [impatient_once]}) as transport,
        OpenAI(base_url=f"{line.url}/v1", api_key=service.token, http_client=transport, max_retries=2) as impatient,
    ):
        answer = impatient.responses.with_raw_response.create(
            model=MODEL,
            input="Hi",
            max_output_tokens=8,
            metadata={"who": "impatient"},
            extra_headers={"Idempotency-Key": "impatient"},
        )
    assert answer.retries_taken == 1
    assert answer.headers["idempotent-replayed"] == "true"
    assert answer.parse().output_text
    count = "SELECT count(*) FROM tasks WHERE json_extract(metadata, '$.who') = 'impatient'"
    assert service.sql(count) == [(1,)]
