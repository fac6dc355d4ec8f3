"""The official `openai` package, unmodified: what people do with it."""

import asyncio
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.responses import Response
from openai.types.responses.responses_server_event import ResponseWsError

from tests.api.bodies import STORY
from tests.clients.line import Line
from tests.service import MODEL, Service, eventually


def test_a_response_is_created_and_retrieved(official: OpenAI) -> None:
    response = official.responses.create(model=MODEL, input="Hi", temperature=0, max_output_tokens=64)
    assert response.status == "completed"
    assert response.output_text
    assert response.usage is not None
    assert response.usage.output_tokens > 0
    assert official.responses.retrieve(response.id) == response


def test_message_items_and_instructions_are_taken(official: OpenAI) -> None:
    response = official.responses.create(
        model=MODEL,
        instructions="Be brief.",
        input=[{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}],
        max_output_tokens=2,
        metadata={"a": "b"},
    )
    assert response.instructions == "Be brief."
    assert response.metadata == {"a": "b"}
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"


def test_a_stream_is_read_to_its_end(official: OpenAI) -> None:
    events = list(official.responses.create(model=MODEL, input="Hi", temperature=0, max_output_tokens=64, stream=True))
    assert [event.type for event in events[:2]] == ["response.created", "response.queued"]
    last = events[-1]
    assert last.type == "response.completed"
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == last.response.output_text != ""


def test_the_stream_helper_puts_the_response_together(official: OpenAI) -> None:
    with official.responses.stream(model=MODEL, input="Hi", temperature=0, max_output_tokens=64) as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
        response = stream.get_final_response()
    assert response.output_text == "".join(deltas) != ""
    again = official.responses.retrieve(response.id)
    assert again.output_text == response.output_text


def test_a_background_response_is_polled(official: OpenAI) -> None:
    response = official.responses.create(model=MODEL, input="Hi", temperature=0, max_output_tokens=64, background=True)
    assert response.status == "queued"
    eventually(lambda: official.responses.retrieve(response.id).status not in ("queued", "in_progress"), 60)
    done = official.responses.retrieve(response.id)
    assert (done.status, done.background) == ("completed", True)
    assert done.output_text


def test_a_stream_is_taken_up_again(official: OpenAI) -> None:
    begun = []
    with official.responses.create(
        model=MODEL, input=STORY, temperature=0, max_output_tokens=16, background=True, stream=True
    ) as stream:
        for event in stream:
            begun.append(event)
            if event.type == "response.output_text.delta":
                break
    response_id = begun[0].response.id  # type: ignore[union-attr]
    cursor = begun[-1].sequence_number
    with official.responses.retrieve(response_id, stream=True, starting_after=cursor) as stream:
        rest = list(stream)
    with official.responses.retrieve(response_id, stream=True) as stream:
        whole = list(stream)
    assert [*begun, *rest] == whole
    assert rest[-1].type == "response.incomplete"


def test_a_stream_is_taken_up_again_after_its_line_was_cut(official: OpenAI, line: Line) -> None:
    begun: list[Any] = []

    def read_on() -> None:
        for event in cut:
            begun.append(event)
            if event.type == "response.output_text.delta":
                line.cut()

    cut = official.responses.create(
        model=MODEL, input=STORY, temperature=0, max_output_tokens=120, background=True, stream=True
    )
    with pytest.raises(openai.APIConnectionError):
        read_on()
    assert begun[0].type == "response.created"
    with official.responses.retrieve(
        begun[0].response.id, stream=True, starting_after=begun[-1].sequence_number
    ) as following:
        rest = list(following)
    assert rest[-1].type == "response.incomplete"
    text = "".join(event.delta for event in [*begun, *rest] if event.type == "response.output_text.delta")
    assert text == rest[-1].response.output_text
    seen = line.check()
    # The second time nothing came that had been there before.
    assert (seen["response.created"], seen["response.incomplete"]) == (1, 1)


def test_the_stream_helper_takes_up_a_response_by_its_id(official: OpenAI) -> None:
    response = official.responses.create(model=MODEL, input=STORY, temperature=0, max_output_tokens=12, background=True)
    with official.responses.stream(response_id=response.id) as stream:
        whole = [event.sequence_number for event in stream]
    with official.responses.stream(response_id=response.id, starting_after=whole[3]) as stream:
        rest = [event.sequence_number for event in stream]
    assert rest == whole[4:]


def test_a_response_is_cancelled(official: OpenAI) -> None:
    response = official.responses.create(
        model=MODEL, input=STORY, temperature=0, max_output_tokens=1000, background=True
    )
    eventually(lambda: official.responses.retrieve(response.id).output_text, 60)
    assert official.responses.cancel(response.id).status == "cancelled"
    assert official.responses.retrieve(response.id).status == "cancelled"


def test_turns_follow_one_another_in_both_ways(official: OpenAI) -> None:
    first = official.responses.create(model=MODEL, input="My name is Ann.", max_output_tokens=2)
    on = official.responses.create(model=MODEL, input="Hi", previous_response_id=first.id, max_output_tokens=2)
    sent: Any = [{"role": "user", "content": "My name is Ann."}]
    sent += [item.model_dump(exclude_none=True) for item in first.output]
    sent += [{"role": "user", "content": "Hi"}]
    again = official.responses.create(model=MODEL, input=sent, max_output_tokens=2)
    assert on.usage is not None
    assert again.usage is not None
    assert on.usage.input_tokens == again.usage.input_tokens
    assert official.responses.input_tokens.count(model=MODEL, input=sent).input_tokens == on.usage.input_tokens
    listed = list(
        official.responses.input_items.list(on.id, limit=1, order="asc", include=["reasoning.encrypted_content"])
    )
    assert [item.type for item in listed] == ["message"] * 3
    assert listed[1].id == first.output[0].id


def test_a_conversation_is_compacted_and_gone_on_with(official: OpenAI) -> None:
    sent: Any = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
    window = official.responses.compact(model=MODEL, input=sent)
    assert [item.type for item in window.output] == ["message", "compaction"]
    # Its types have no user messages among the output, though its documentation has.
    kept = [item.model_dump(exclude_none=True, warnings=False) for item in window.output]
    more: Any = [*kept, {"role": "user", "content": "Bye"}]
    response = official.responses.create(model=MODEL, input=more, max_output_tokens=2)
    plain = official.responses.input_tokens.count(model=MODEL, input=[*sent, {"role": "user", "content": "Bye"}])
    assert response.usage is not None
    assert response.usage.input_tokens == plain.input_tokens


def test_a_response_is_deleted(official: OpenAI) -> None:
    response = official.responses.create(model=MODEL, input="Hi", max_output_tokens=2)
    official.responses.delete(response.id)
    for call in (official.responses.retrieve, official.responses.delete):
        with pytest.raises(openai.NotFoundError):
            call(response.id)


def test_the_asynchronous_client_does_the_same(line: Line, service: Service) -> None:
    async def asked() -> None:
        async with AsyncOpenAI(base_url=f"{line.url}/v1", api_key=service.token, max_retries=0) as client:
            responses = client.responses
            request: Any = {"model": MODEL, "input": "Hi", "temperature": 0, "max_output_tokens": 8}
            whole, stream = await asyncio.gather(responses.create(**request), responses.create(**request, stream=True))
            events = [event async for event in stream]
            assert events[-1].response.output_text == whole.output_text != ""
            waiting = await responses.create(**{**request, "max_output_tokens": 1000}, background=True)
            assert (await responses.cancel(waiting.id)).status in ("in_progress", "cancelled")
            with pytest.raises(openai.NotFoundError):
                await responses.retrieve("resp_unknown")

    asyncio.run(asked())


def test_models_are_listed_and_retrieved(official: OpenAI) -> None:
    listed = {model.id: model for model in official.models.list()}
    assert listed[MODEL] == official.models.retrieve(MODEL)


# The client opens its socket in a way that the library will give up.
@pytest.mark.filterwarnings("ignore:connect.. must be used as a context manager:DeprecationWarning")
def test_a_socket_carries_turns_that_go_on_from_each_other(official: OpenAI) -> None:
    ends: list[Response] = []
    with official.responses.connect() as connection:
        for text in ("Hi", "And?"):
            connection.response.create(
                model=MODEL,
                input=text,
                temperature=0,
                max_output_tokens=8,
                store=False,
                previous_response_id=ends[-1].id if ends else None,
            )
            deltas = ""
            for event in connection:
                if event.type == "response.output_text.delta":
                    deltas += event.delta
                if event.type == "response.incomplete" or event.type == "response.completed":
                    assert event.response.output_text == deltas != ""
                    ends.append(event.response)
                    break
        connection.response.create(model="unknown", input="Hi")
        refused = next(iter(connection))
    assert ends[1].previous_response_id == ends[0].id
    assert refused.type == "error"
    assert isinstance(refused, ResponseWsError)
    assert (refused.status, refused.error.code) == (404, "model_not_found")
