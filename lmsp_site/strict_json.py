"""JSON as RFC 8785 can sign it: what a digest cannot be taken of is refused at the door."""

import json
import math
from typing import Any, NoReturn

from lmsp_site.errors import InvalidRequest, UnsupportedMediaType

MAX_INTEGER = 2**53 - 1
MAX_DEPTH = 64


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidRequest(f"{name} is not a JSON number.", code="invalid_json")


def _integer(text: str) -> int:
    # Ten thousand digits would take seconds to convert; none of them could be in range.
    if len(text) > 17 or abs(value := int(text)) > MAX_INTEGER:
        raise InvalidRequest(f"The integer {text[:24]} is beyond ±(2^53-1).", code="invalid_number")
    return value


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise InvalidRequest(f"The number {text[:24]} is too large.", code="invalid_number")
    return value


def _check(value: Any, depth: int = 0) -> None:
    if depth > MAX_DEPTH:
        raise InvalidRequest(f"The body is nested deeper than {MAX_DEPTH} levels.", code="invalid_json")
    if isinstance(value, str):
        if "\x00" in value:
            raise InvalidRequest("A string holds the character NUL.", code="invalid_string")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidRequest("A string holds half a surrogate pair.", code="invalid_string") from None
    elif isinstance(value, dict):
        for key, inner in value.items():
            _check(key, depth)
            _check(inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            _check(inner, depth + 1)


def require_media_type(content_type: str | None) -> None:
    """Refuse a body that does not say that it is JSON.

    Raises:
        UnsupportedMediaType: another type, or none.
    """
    if (content_type or "").partition(";")[0].strip().lower() != "application/json":
        raise UnsupportedMediaType("Send the body as JSON, with Content-Type: application/json.")


def parse_object(raw: bytes) -> dict[str, Any]:
    """Parse a request body.

    Raises:
        InvalidRequest: not UTF-8, not JSON, not an object, or holding a number or string that no JSON text
            can carry faithfully (NaN, 1e999, integers beyond ±(2^53-1), lone surrogates, NUL).
    """
    try:
        body = json.loads(raw.decode("utf-8"), parse_constant=_refuse_constant, parse_int=_integer, parse_float=_float)
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"The body is not UTF-8 (byte {error.start}).", code="invalid_json") from None
    except json.JSONDecodeError as error:
        raise InvalidRequest(
            f"The body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}.",
            code="invalid_json",
        ) from None
    except RecursionError:
        raise InvalidRequest(f"The body is nested deeper than {MAX_DEPTH} levels.", code="invalid_json") from None
    if not isinstance(body, dict):
        raise InvalidRequest("The body must be a JSON object.", code="invalid_json")
    _check(body)
    return body
