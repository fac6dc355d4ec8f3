"""The official `openai` package's chat completions, unmodified, against the service."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import openai
import pytest
from openai import OpenAI
from pydantic import BaseModel, Field

from tests.api.bodies import STORY, TOO_LONG
from tests.service import MODEL, Service, eventually

HI: Any = [{"role": "user", "content": "Hi"}]
# The tokens by which the demo model ends an answer are never drawn.
NEVER_ENDING = {"0": -100, "2": -100}


@pytest.fixture(scope="module")
def official(service: Service) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{service.url}/v1", api_key=service.token, max_retries=0, timeout=60) as client:
        yield client


def test_a_completion_is_created_and_its_message_gone_on_with(official: OpenAI) -> None:
    completion = official.chat.completions.create(model=MODEL, messages=HI, temperature=0, max_completion_tokens=64)
    (choice,) = completion.choices
    assert (choice.finish_reason, choice.message.role) == ("stop", "assistant")
    assert choice.message.content
    assert completion.usage is not None
    assert completion.usage.total_tokens == completion.usage.prompt_tokens + completion.usage.completion_tokens
    assert completion.system_fingerprint is None
    sent: Any = [*HI, choice.message, *HI]
    more = official.chat.completions.create(model=MODEL, messages=sent, max_tokens=2)
    assert more.usage is not None
    assert more.usage.prompt_tokens > completion.usage.total_tokens
    assert more.choices[0].finish_reason == "length"


def test_a_stream_is_read_to_its_end(official: OpenAI) -> None:
    whole = official.chat.completions.create(model=MODEL, messages=HI, temperature=0)
    with official.chat.completions.create(
        model=MODEL, messages=HI, temperature=0, stream=True, stream_options={"include_usage": True}
    ) as stream:
        received = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in received[:-1]) == whole.choices[0].message.content
    assert received[0].choices[0].delta.role == "assistant"
    assert received[-2].choices[0].finish_reason == "stop"
    assert received[-1].usage == whole.usage


def test_the_stream_helper_puts_the_completion_together(official: OpenAI) -> None:
    with official.chat.completions.stream(model=MODEL, messages=HI, temperature=0) as stream:
        deltas = [event.delta for event in stream if event.type == "content.delta"]
        completion = stream.get_final_completion()
    assert completion.choices[0].message.content == "".join(deltas) != ""
    assert completion.choices[0].finish_reason == "stop"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("request_", "kind", "code"),
    [
        ({"model": "unknown"}, openai.NotFoundError, "model_not_found"),
        ({"temperature": 9}, openai.BadRequestError, "invalid_value"),
        ({"n": 2}, openai.BadRequestError, "invalid_value"),
        ({"messages": [{"role": "user", "content": TOO_LONG}]}, openai.BadRequestError, "context_length_exceeded"),
    ],
)
def test_a_refusal_is_an_exception_of_its_kind(
    official: OpenAI, request_: dict[str, Any], kind: type[openai.APIStatusError], code: str, *, stream: bool
) -> None:
    with pytest.raises(kind) as refused:
        official.chat.completions.create(**{"model": MODEL, "messages": HI, **request_}, stream=stream)
    assert refused.value.code == code
    assert refused.value.param in request_


def test_who_may_not_is_told_by_exceptions(service: Service, official: OpenAI) -> None:
    with pytest.raises(openai.AuthenticationError):
        official.with_options(api_key="lmsp_wrong").chat.completions.create(model=MODEL, messages=HI)
    reader = official.with_options(api_key=service.pair("chat reader", "models:read"))
    with pytest.raises(openai.PermissionDeniedError):
        reader.chat.completions.create(model=MODEL, messages=HI)


ASKED: list[Any] = [{"role": "user", "content": "What is the weather in Rome?"}]
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 12}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOLS: list[Any] = [{"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS, "strict": True}}]
CHOICE: Any = {"type": "function", "function": {"name": "get_weather"}}


def test_a_tool_is_called_and_its_output_told(official: OpenAI) -> None:
    called: dict[str, Any] = {"model": MODEL, "temperature": 0, "tools": TOOLS, "tool_choice": CHOICE}
    answer = official.chat.completions.create(messages=ASKED, **called).choices[0]
    assert answer.finish_reason == "tool_calls"
    (call,) = answer.message.tool_calls
    assert json.loads(call.function.arguments).keys() == {"city"}
    with official.chat.completions.stream(messages=ASKED, **called) as stream:
        streamed = stream.get_final_completion().choices[0].message.tool_calls
    assert streamed
    assert streamed[0].function.arguments == call.function.arguments
    told = [*ASKED, answer.message, {"role": "tool", "tool_call_id": call.id, "content": "Sunny."}]
    later = official.chat.completions.create(model=MODEL, messages=told, temperature=0, tools=TOOLS, max_tokens=4)
    assert later.choices[0].message.content


def test_a_key_is_sent_with_options_and_joins(official: OpenAI) -> None:
    keyed = official.with_options(default_headers={"Idempotency-Key": "official chat"})
    once, again = (keyed.chat.completions.create(model=MODEL, messages=HI, max_tokens=2) for _ in range(2))
    assert once == again
    with pytest.raises(openai.UnprocessableEntityError):
        keyed.chat.completions.create(model=MODEL, messages=HI, max_tokens=3)


@pytest.mark.parametrize("stream", [False, True])
def test_a_generation_that_fails_is_an_exception_and_is_not_sent_again(
    service: Service, official: OpenAI, *, stream: bool
) -> None:
    name = f"official fails {stream}"
    said: Any = [{"role": "user", "content": STORY}]

    def generate() -> Any:
        answer: Any = official.with_options(max_retries=2).chat.completions.create(
            model=MODEL,
            messages=said,
            max_tokens=2000,
            stream=stream,
            metadata={"name": name},
            logit_bias=NEVER_ENDING,
        )
        return list(answer)

    find = "SELECT id FROM tasks WHERE output_tokens > 0 AND json_extract(metadata, '$.name') = ?"
    with ThreadPoolExecutor() as threads:
        generated = threads.submit(generate)
        ((task_id,),) = eventually(lambda: service.sql(find, name), 60, "the task generates")
        service.sql("UPDATE tasks SET expires_at = datetime('now') WHERE id = ?", task_id)
        with pytest.raises(openai.APIError) as failed:
            generated.result(60)
    assert isinstance(failed.value, openai.InternalServerError) is not stream
    assert (failed.value.type, failed.value.code) == ("server_error", "expired")
    assert service.sql(f"SELECT count(*) FROM tasks WHERE json_extract(metadata, '$.name') = '{name}'") == [(1,)]


class Knight(BaseModel):
    name: str = Field(max_length=8)
    rank: Literal["page", "squire", "knight"]


def test_a_completion_is_parsed_into_a_class(official: OpenAI) -> None:
    completion = official.chat.completions.parse(
        model=MODEL, messages=HI, response_format=Knight, temperature=1.2, max_completion_tokens=60
    )
    assert isinstance(completion.choices[0].message.parsed, Knight)


def test_log_probabilities_are_read_whole_and_in_a_stream(official: OpenAI) -> None:
    asked: dict[str, Any] = {"model": MODEL, "messages": HI, "temperature": 0, "max_completion_tokens": 64}
    completion = official.chat.completions.create(**asked, logprobs=True, top_logprobs=2)
    told = completion.choices[0].logprobs
    assert told is not None
    assert told.content is not None
    assert {len(one.top_logprobs) for one in told.content} == {2}
    assert "".join(one.token for one in told.content) == completion.choices[0].message.content
    with official.chat.completions.stream(**asked, logprobs=True, top_logprobs=2) as stream:
        streamed = stream.get_final_completion()
    assert streamed.choices[0].logprobs == told
