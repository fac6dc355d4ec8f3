"""The description of the API: made once in each process, from its addresses, views and serializers."""

import hashlib
from functools import cache
from typing import Any, NamedTuple

from drf_spectacular.generators import SchemaGenerator

# Three of them are imported for the extensions in them, which the library finds by their base classes.
from lmsp_site.openapi import authentication, calls, errors, fields, refinements  # noqa: F401
from lmsp_site.openapi.answers import COMPONENTS
from lmsp_site.openapi.chat import CHAT
from lmsp_site.openapi.items import INPUT_ITEMS, ITEMS, Schema
from lmsp_site.views import encode


class Document(NamedTuple):
    """The description as it is sent."""

    body: bytes
    etag: str


@cache
def document() -> Document:
    """Return the description; the first call takes a moment."""
    body = encode(SchemaGenerator().get_schema(request=None, public=True))
    return Document(body, f'"{hashlib.sha256(body).hexdigest()[:32]}"')


def complete(result: Schema, **_: Any) -> Schema:
    """Add to what the library has found: objects, what serializers check beside their fields, and errors.

    A status from 400 on that a call names without saying more becomes the error of that status.
    """
    components = result["components"]
    refinements.refine(components["schemas"])
    components["schemas"] |= {**INPUT_ITEMS, **ITEMS, **COMPONENTS, **CHAT}
    components["responses"] = errors.RESPONSES
    for path, operations in result["paths"].items():
        for method, operation in operations.items():
            answers = operation["responses"]
            described = {int(status) for status, answer in answers.items() if status < "400" or "content" in answer}
            for status in {*map(int, answers), *errors.of(path, method, operation)} - described:
                answers[str(status)] = errors.reference(status)
            operation["responses"] = dict(sorted(answers.items()))
    return result
