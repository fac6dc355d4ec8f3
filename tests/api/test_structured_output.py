"""JSON that a request demands of its answer: kept to, shown, and refused where it cannot be kept to."""

import json
from typing import Any

import httpx
import jsonschema
import pytest

from tests.api.bodies import CHAT, body, chat, error, rows
from tests.conformance.open_responses import check_response
from tests.service import Service

PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
FORM: dict[str, Any] = {"type": "json_schema", "name": "person", "schema": PERSON, "strict": True}


def _bad(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": {"anyOf": [{"type": "null"}, schema]}}}


# What is refused, and what the message has to say of it.
BAD: dict[str, tuple[dict[str, Any], list[str]]] = {
    "keyword": (_bad({"not": {"type": "null"}}), ["properties.a.anyOf[1]", '"not"']),
    "unique": (_bad({"type": "array", "uniqueItems": True}), ["properties.a.anyOf[1]", '"uniqueItems"']),
    "conditional": (_bad({"if": {}, "then": {}}), ["properties.a.anyOf[1]", '"if", "then"']),
    "number": (_bad({"type": "object", "minProperties": 1}), ["properties.a.anyOf[1]", '"minProperties"']),
    "type": (_bad({"type": "strin"}), ["properties.a.anyOf[1]", "strin"]),
    "pattern": (_bad({"type": "string", "pattern": "(?=a)b"}), ["properties.a.anyOf[1]", '"pattern"', "look-around"]),
    "format": (_bad({"type": "string", "format": "colour"}), ["properties.a.anyOf[1]", "colour"]),
    "reference": (_bad({"$ref": "#/$defs/nothing"}), ["properties.a.anyOf[1]", '"$ref"', "/$defs/nothing"]),
    "elsewhere": (_bad({"$ref": "http://localhost/x.json"}), ['"$ref"', "http://localhost/x.json", "elsewhere"]),
    "no-schema": (_bad({"type": "array", "items": 5}), ["properties.a.anyOf[1]", '"items"', "object or boolean"]),
    "overlap": (_bad({"oneOf": [{"type": "string"}, {"type": "string"}]}), ["properties.a.anyOf[1]", "anyOf"]),
    "contradiction": ({"allOf": [{"type": "string"}, {"type": "number"}]}, ["incompatible types"]),
    "endless": ({"$ref": "#"}, ["no text"]),
    "many-ways": ({"type": "object", "properties": {str(n): {} for n in range(1001)}}, ["1000 properties"]),
    "long": ({"enum": ["x" * 200_000]}, ["131072 characters"]),
    "exponential": (
        {"allOf": [{"anyOf": [{"properties": {f"{a}{b}": {"const": 1}}} for b in range(2)]} for a in range(16)]},
        ["too large"],
    ),
}


def _asking(form: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return body("Describe a person.", **fields) | {"text": {"format": form}}


def _text(response: dict[str, Any]) -> str:
    text: str = response["output"][0]["content"][0]["text"]
    return text


@pytest.mark.parametrize("temperature", [0, 1.8])
def test_an_answer_is_what_the_schema_describes(http: httpx.Client, temperature: float) -> None:
    asked = _asking(FORM, temperature=temperature, max_output_tokens=60)
    response = http.post("/v1/responses", json=asked).json()
    assert response["status"] == "completed"
    jsonschema.validate(json.loads(_text(response)), PERSON)
    assert response["text"] == {"format": {**FORM, "description": None}}
    check_response(response)


def test_a_chat_completion_is_what_its_schema_describes_streamed_too(http: httpx.Client) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}
    asked = chat("Describe a person.", response_format=form, max_tokens=60)
    choice = http.post(CHAT, json=asked).json()["choices"][0]
    assert choice["finish_reason"] == "stop"
    jsonschema.validate(json.loads(choice["message"]["content"]), PERSON)
    frames = http.post(CHAT, json=asked | {"stream": True}).text.split("\n\n")
    chunks = [json.loads(frame.removeprefix("data: ")) for frame in frames if frame.startswith("data: {")]
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == choice["message"]["content"]


def test_a_json_object_is_one_and_is_incomplete_where_it_is_cut(http: httpx.Client) -> None:
    asked = _asking({"type": "json_object"}, max_output_tokens=6)
    response = http.post("/v1/responses", json=asked).json()
    assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert _text(response).startswith("{")
    with pytest.raises(ValueError, match=r"."):
        json.loads(_text(response))
    assert response["text"] == {"format": {"type": "json_object"}}
    check_response(response)


@pytest.mark.parametrize("name", BAD)
def test_a_schema_that_cannot_be_kept_to_is_refused_and_said_where(
    service: Service, http: httpx.Client, name: str
) -> None:
    schema, said = BAD[name]
    before = rows(service)
    found = error(http.post("/v1/tasks", json=_asking(FORM | {"schema": schema})), 400)
    assert (found["param"], found["code"]) == ("text.format.schema", "invalid_value")
    assert all(part in found["message"] for part in said), found["message"]
    assert rows(service) == before


@pytest.mark.parametrize(
    ("form", "member"),
    [
        ({"name": None}, ".name"),
        ({"name": "two words"}, ".name"),
        ({"name": "x" * 65}, ".name"),
        ({"schema": None}, ".schema"),
        ({"schema": "{}"}, ".schema"),
        ({"strict": "yes"}, ".strict"),
        ({"description": 5}, ".description"),
    ],
)
def test_a_form_that_says_too_little_or_something_else_is_refused(
    http: httpx.Client, form: dict[str, Any], member: str
) -> None:
    found = error(http.post("/v1/responses", json=_asking(FORM | form)), 400)
    assert found["param"] == f"text.format{member}"
    deeper = {"type": "json_schema", "json_schema": FORM | form}
    found = error(http.post(CHAT, json=chat(response_format=deeper)), 400)
    assert found["param"] == f"response_format.json_schema{member}"


def test_a_chat_completion_without_its_schema_is_refused(http: httpx.Client) -> None:
    found = error(http.post(CHAT, json=chat(response_format={"type": "json_schema"})), 400)
    assert found["param"] == "response_format.json_schema"
