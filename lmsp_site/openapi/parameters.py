"""Parameters and headers that more than one call has."""

from drf_spectacular.utils import OpenApiParameter

from lmsp_site.openapi.items import Schema
from lmsp_site.strict_json import MAX_INTEGER

_CURSOR: Schema = {"type": "integer", "minimum": 0, "maximum": MAX_INTEGER}


def query(name: str, schema: Schema, description: str, *, default: object = None) -> OpenApiParameter:
    """Return a query parameter."""
    return OpenApiParameter(name, schema, OpenApiParameter.QUERY, description=description, default=default)


def header(name: str, schema: Schema, description: str) -> OpenApiParameter:
    """Return a header of the request."""
    return OpenApiParameter(name, schema, OpenApiParameter.HEADER, description=description)


def answered(name: str, description: str, *statuses: int) -> OpenApiParameter:
    """Return a header of the answer."""
    return OpenApiParameter(name, str, OpenApiParameter.HEADER, description=description, response=list(statuses))


def path(name: str, description: str) -> OpenApiParameter:
    """Return a part of the address."""
    return OpenApiParameter(name, {"type": "string", "minLength": 1}, OpenApiParameter.PATH, description=description)


def cursor(name: str, description: str) -> OpenApiParameter:
    """Return a sequence number as a query parameter."""
    return query(name, _CURSOR, description)


def limit(default: int, most: int) -> OpenApiParameter:
    """Return ``limit``."""
    schema = {"type": "integer", "minimum": 1, "maximum": MAX_INTEGER}
    return query("limit", schema, f"How many at most; more than {most} is {most}.", default=default)


TASK = path("task_id", "The id of a task of one's own.")
RESPONSE = path("response_id", "The id of a response of one's own.")
MODEL = path("model_id", "The id of a model; it may contain slashes.")

PAGE = (
    limit(20, 100),
    query("order", {"enum": ["asc", "desc"]}, "By age.", default="desc"),
    query("after", {"type": "string", "minLength": 1}, "Go on behind the entry with this id."),
    query("before", {"type": "string", "minLength": 1}, "End before the entry with this id. Not with `after`."),
)

INCLUDE = query("include", {"type": "array", "items": {"type": "string"}}, "Changes nothing.")

IDEMPOTENCY_KEY = header(
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": 255},
    "The same key with the same request finds, joins or replays the first one. Printable characters; kept for a day.",
)

REPLAYED = "`true` where an earlier request with the same `Idempotency-Key` is answered again."
