"""Bodies that are no JSON object, or none that a digest can be taken of: refused, and nothing is stored."""

import json

import httpx
import pytest

from tests.api.bodies import CREATING, body, error

JSON = {"Content-Type": "application/json"}
pytestmark = pytest.mark.usefixtures("nothing_stored")


def with_field(value: str, name: str = "temperature") -> bytes:
    """Return a good request to which a field was added as raw JSON."""
    return f'{json.dumps(body())[:-1]}, "{name}": {value}}}'.encode()


def nested(depth: int, opening: str = "[", closing: str = "]") -> str:
    return opening * depth + closing * depth


NO_JSON = {
    "nothing": b"",
    "blanks": b" \n",
    "cut off": json.dumps(body()).encode()[:-1],
    "single quotes": b"{'model': 'x'}",
    "trailing comma": with_field("1,"),
    "two documents": json.dumps(body()).encode() * 2,
    "unquoted": b"{model: 1}",
    "a comment": with_field("1 // one"),
    "NaN": with_field("NaN"),
    "Infinity": with_field("Infinity"),
    "-Infinity": with_field("-Infinity"),
    "NaN deep inside": with_field('{"a": [NaN]}', "metadata"),
    "a byte that is no UTF-8": with_field('"\xff"', "instructions").decode().encode("latin-1"),
    "UTF-16": json.dumps(body()).encode("utf-16"),
    "a raw NUL": with_field('"\0"', "instructions"),
    "a raw newline": with_field('"\n"', "instructions"),
    "an array": b"[]",
    "a string": b'"model"',
    "a number": b"1",
    "null": b"null",
    "true": b"true",
    "65 levels": with_field(nested(65), "metadata"),
    "100 levels": with_field(nested(100), "metadata"),
    "100 objects": with_field(nested(100, '{"a":', "}").replace(":}", ":1}"), "metadata"),
    "100,000 levels": with_field(nested(100_000), "metadata"),
    "100,000 levels that never close": b'{"a":' * 100_000,
}
NO_NUMBER = {
    "1e999": with_field("1e999"),
    "-1e999": with_field("-1e999"),
    "1e999 deep inside": with_field('[{"a": 1e999}]', "tools"),
    "2^53": with_field("9007199254740992", "seed"),
    "-2^53": with_field("-9007199254740992", "seed"),
    "400 digits": with_field("9" * 400, "max_output_tokens"),
    "a million digits": with_field("9" * 1_000_000, "max_output_tokens"),
}
NO_STRING = {
    "half a surrogate pair": with_field('"\\ud83e"', "instructions"),
    "the other half": with_field('"\\udd99 "', "instructions"),
    "half a pair in a name": with_field('{"\\ud83e": "a"}', "metadata"),
    "NUL": with_field('"a\\u0000b"', "instructions"),
    "NUL in a name": with_field('{"\\u0000": "a"}', "metadata"),
    "NUL in a name of the body": with_field("1", "\\u0000"),
}
BAD = [
    *(pytest.param(raw, "invalid_json", id=name) for name, raw in NO_JSON.items()),
    *(pytest.param(raw, "invalid_number", id=name) for name, raw in NO_NUMBER.items()),
    *(pytest.param(raw, "invalid_string", id=name) for name, raw in NO_STRING.items()),
]


@pytest.mark.parametrize("path", CREATING)
@pytest.mark.parametrize(("raw", "code"), BAD)
def test_a_malformed_body_is_400_and_leaves_nothing(http: httpx.Client, path: str, raw: bytes, code: str) -> None:
    answer = http.post(path, content=raw, headers={**JSON, "Idempotency-Key": "malformed"})
    found = error(answer, 400)
    assert (found["type"], found["code"]) == ("invalid_request_error", code)
    assert len(answer.content) < 1000


@pytest.mark.parametrize("path", CREATING)
@pytest.mark.parametrize(
    "media_type",
    [None, "", "text/plain", "application/x-www-form-urlencoded", "application/jsonp",
     "text/json", "application/merge-patch+json", "application", "*/*", "application/json, text/plain"],
)  # fmt: skip
@pytest.mark.parametrize("raw", [json.dumps(body()).encode(), b""])
def test_a_body_that_does_not_say_it_is_json_is_415(
    http: httpx.Client, path: str, media_type: str | None, raw: bytes
) -> None:
    headers = {} if media_type is None else {"Content-Type": media_type}
    answer = http.post(path, content=raw, headers=headers)
    assert error(answer, 415)["code"] == "unsupported_media_type"


@pytest.mark.parametrize("path", CREATING)
def test_forms_are_not_json_either(http: httpx.Client, path: str) -> None:
    # One of several parts that does not say where they end, which Daphne's own library would refuse in its words.
    endless = http.post(path, content=b"--x", headers={"Content-Type": "multipart/form-data"})
    for answer in (http.post(path, data=body()), http.post(path, files={"model": b"x"}), endless):
        assert error(answer, 415)["code"] == "unsupported_media_type"


@pytest.mark.parametrize("path", CREATING)
@pytest.mark.parametrize(
    "media_type", ["application/json; charset=utf-8", "Application/JSON", "application/json ; x=y"]
)
def test_json_is_said_in_several_ways(http: httpx.Client, path: str, media_type: str) -> None:
    answer = http.post(path, content=b"{}", headers={"Content-Type": media_type})
    assert error(answer, 400)["param"] == "model"
