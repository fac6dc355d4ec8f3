"""Structured output and log probabilities as users of the official `openai` package ask for them."""

from typing import Literal

from openai import OpenAI
from pydantic import BaseModel, Field

from tests.service import MODEL


class Knight(BaseModel):
    """A class as programs have it; what a small model must not be let to do without an end is bounded."""

    name: str = Field(max_length=8)
    age: int = Field(ge=0, le=150)
    rank: Literal["page", "squire", "knight"]


def test_a_response_is_parsed_into_a_class(official: OpenAI) -> None:
    response = official.responses.parse(
        model=MODEL, input="Describe a knight.", text_format=Knight, temperature=1.2, max_output_tokens=60
    )
    assert isinstance(response.output_parsed, Knight)
    assert Knight.model_validate_json(response.output_text) == response.output_parsed


def test_a_stream_is_parsed_into_a_class(official: OpenAI) -> None:
    with official.responses.stream(
        model=MODEL, input="Describe a knight.", text_format=Knight, temperature=0, max_output_tokens=60
    ) as stream:
        response = stream.get_final_response()
    assert isinstance(response.output_parsed, Knight)


def test_log_probabilities_are_read(official: OpenAI) -> None:
    response = official.responses.create(
        model=MODEL,
        input="Hi",
        include=["message.output_text.logprobs"],
        top_logprobs=2,
        temperature=0,
        max_output_tokens=4,
    )
    [part] = [part for item in response.output if item.type == "message" for part in item.content]
    assert part.type == "output_text"
    assert part.logprobs is not None
    assert bytes(byte for one in part.logprobs for byte in one.bytes).decode() == part.text
    assert [one.top_logprobs[0].token for one in part.logprobs] == [one.token for one in part.logprobs]
