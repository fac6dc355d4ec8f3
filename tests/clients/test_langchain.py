"""LangChain's `ChatOpenAI`, told to use the Responses API and otherwise unmodified."""

import asyncio
from typing import Any

import openai
import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from tests.clients.line import Line
from tests.service import MODEL, Service


@pytest.fixture(autouse=True)
def _untraced(monkeypatch: pytest.MonkeyPatch) -> None:
    # Whoever has its tracing on would send these runs to a service in the internet.
    monkeypatch.setenv("LANGSMITH_TRACING_V2", "false")


@pytest.fixture
def model(line: Line, service: Service) -> ChatOpenAI:
    return chat(line, service)


def chat(line: Line, service: Service, **options: Any) -> ChatOpenAI:
    """Return LangChain's model, which says little and always the same."""
    return ChatOpenAI(
        base_url=f"{line.url}/v1",
        api_key=SecretStr(service.token),
        use_responses_api=True,
        max_retries=0,
        **{"model": MODEL, "temperature": 0, "max_tokens": 16, **options},
    )


def test_a_model_is_invoked(model: ChatOpenAI, line: Line) -> None:
    answer = model.invoke([SystemMessage("Be brief."), HumanMessage("Hi")])
    assert isinstance(answer, AIMessage)
    assert answer.text
    assert answer.usage_metadata is not None
    assert 0 < answer.usage_metadata["output_tokens"] <= 16
    assert answer.usage_metadata["total_tokens"] == (
        answer.usage_metadata["input_tokens"] + answer.usage_metadata["output_tokens"]
    )
    assert answer.response_metadata["id"].startswith("resp_")
    assert answer.response_metadata["model_name"] == MODEL
    assert line.check()["response"] == 1


def test_a_stream_says_what_an_invocation_does(model: ChatOpenAI, line: Line) -> None:
    answer = model.invoke("Hi")
    first, *more = model.stream("Hi")
    whole = first
    for chunk in more:
        whole += chunk
    assert len(more) > 3
    assert whole.text == answer.text != ""
    assert isinstance(whole, AIMessage)
    assert whole.usage_metadata == answer.usage_metadata
    assert whole.response_metadata["id"].startswith("resp_")
    assert line.check()["response.output_text.delta"] > 3


def test_what_was_invoked_and_streamed_asynchronously_is_the_same(model: ChatOpenAI) -> None:
    async def asked() -> tuple[str, str]:
        answer, chunks = await asyncio.gather(model.ainvoke("Hi"), streamed())
        return answer.text, "".join(chunks)

    async def streamed() -> list[str]:
        return [chunk.text async for chunk in model.astream("Hi")]

    whole, joined = asyncio.run(asked())
    assert whole == joined != ""


def test_a_batch_answers_each(model: ChatOpenAI) -> None:
    answers = model.batch(["Hi", "Say hello.", "Hi"])
    assert len(answers) == 3
    assert answers[0].text == answers[2].text != ""
    assert answers[0].id != answers[2].id


def test_turns_go_on_by_their_messages_and_by_their_ids(line: Line, service: Service) -> None:
    said = [HumanMessage("My name is Ann."), HumanMessage("What is my name?")]
    model = chat(line, service)
    first = model.invoke(said[:1])
    by_messages = model.invoke([said[0], first, said[1]])
    by_id = model.invoke(said[1:], previous_response_id=first.response_metadata["id"])
    # It finds the id among the messages itself.
    by_itself = chat(line, service, use_previous_response_id=True).invoke([said[0], first, said[1]])
    for answer in (by_id, by_itself):
        assert answer.text == by_messages.text != ""
        assert answer.usage_metadata == by_messages.usage_metadata


def test_a_tool_is_called_and_its_output_told(line: Line, service: Service) -> None:
    city = {"type": "string", "maxLength": 12}
    schema = {"type": "object", "properties": {"city": city}, "required": ["city"], "additionalProperties": False}
    weather = {"title": "get_weather", "description": "Tells the weather.", **schema}
    model = chat(line, service, max_tokens=60)
    asked = HumanMessage("How is the weather in Rome?")
    calling = model.bind_tools([weather], tool_choice="get_weather", strict=True)
    answer = calling.invoke([asked])
    assert isinstance(answer, AIMessage)
    (call,) = answer.tool_calls
    assert (call["name"], [*call["args"]]) == ("get_weather", ["city"])
    told = [asked, answer, ToolMessage("Sunny.", tool_call_id=call["id"])]
    assert chat(line, service, max_tokens=4).bind_tools([weather]).invoke(told).text


def test_a_failure_is_an_exception_of_the_client(line: Line, service: Service, model: ChatOpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        chat(line, service, model="unknown").invoke("Hi")
    with pytest.raises(openai.BadRequestError) as refused:
        model.bind_tools([{"type": "web_search_preview"}]).invoke("Hi")
    assert refused.value.param == "tools"
    with pytest.raises(openai.BadRequestError):
        list(chat(line, service, temperature=9).stream("Hi"))
