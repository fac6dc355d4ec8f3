"""Tools through the official `openai` package, unmodified: streamed, parsed, and the way back."""

import json
from typing import Any

import openai
import pytest
from openai import OpenAI
from pydantic import BaseModel, Field

from tests.service import MODEL

ASKED = "What is the weather in Rome?"
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 12},
        "days": {"type": "integer", "minimum": 1, "maximum": 9},
    },
    "required": ["city", "days"],
    "additionalProperties": False,
}
TOOL: Any = {"type": "function", "name": "get_weather", "parameters": PARAMETERS, "strict": True}


class GetWeather(BaseModel):
    """Tells the weather."""

    city: str = Field(max_length=12)
    days: int = Field(ge=1, le=9)


def test_a_tool_is_called_and_its_output_told(official: OpenAI) -> None:
    response = official.responses.create(
        model=MODEL, input=ASKED, temperature=0, tools=[TOOL], tool_choice="required", parallel_tool_calls=False
    )
    (call,) = response.output
    assert call.type == "function_call"
    assert (call.name, response.output_text) == ("get_weather", "")
    assert json.loads(call.arguments).keys() == {"city", "days"}
    later = official.responses.create(
        model=MODEL,
        input=[{"type": "function_call_output", "call_id": call.call_id, "output": "Sunny."}],
        previous_response_id=response.id,
        tools=[TOOL],
        temperature=0,
        max_output_tokens=4,
    )
    assert later.output_text


def test_a_streamed_call_is_parsed_by_the_client(official: OpenAI) -> None:
    with official.responses.stream(
        model=MODEL,
        input=ASKED,
        temperature=0,
        tools=[openai.pydantic_function_tool(GetWeather)],
        tool_choice="required",
        parallel_tool_calls=False,
    ) as stream:
        deltas = [event.delta for event in stream if event.type == "response.function_call_arguments.delta"]
        (call,) = stream.get_final_response().output
    assert call.type == "function_call"
    assert "".join(deltas) == call.arguments
    assert len(deltas) > 2


def test_tools_that_are_not_known_are_errors_of_the_client(official: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        official.responses.create(model=MODEL, input="Hi", tools=[{"type": "web_search_preview"}])
    assert refused.value.param == "tools"
    assert "web_search_preview" in refused.value.message
