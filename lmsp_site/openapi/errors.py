"""Which errors each call can answer with, and how they look in the document."""

from typing import Any

from lmsp_site.openapi.items import Schema, ref

_RETRY_AFTER: Schema = {"description": "Seconds until it is worth another try.", "schema": {"type": "string"}}

_SHOULD_RETRY: Schema = {"schema": {"type": "string"}}

_QUOTA: Schema = {
    "RateLimit-Limit": {"description": "How much there is in all, of a client's quota.", "schema": {"type": "string"}},
    "RateLimit-Remaining": {"description": "What is left of it.", "schema": {"type": "string"}},
    "RateLimit-Reset": {"description": "Seconds until there is more.", "schema": {"type": "string"}},
}

# By status: the component's name, what it means, the codes it comes with, further headers.
_ERRORS: dict[int, tuple[str, str, tuple[str, ...], Schema]] = {
    400: (
        "InvalidRequest",
        "The request cannot be meant as it stands; nothing was stored.",
        (
            *("invalid_json", "invalid_number", "invalid_string", "invalid_value", "invalid_cursor", "invalid_host"),
            *("invalid_encrypted_content", "invalid_idempotency_key", "invalid_request", "unknown_parameter"),
            *("context_length_exceeded", "prompt_not_supported", "not_acceptable", "invalid_http"),
            *("authorization_pending", "slow_down", "access_denied", "expired_token", "invalid_grant"),
        ),
        {},
    ),
    401: (
        "Unauthenticated",
        "No token, or none that is good.",
        ("invalid_token",),
        {"WWW-Authenticate": {"schema": {"type": "string"}}},
    ),
    403: ("Forbidden", "The token lacks the scope; checked before any id is looked up.", ("insufficient_scope",), {}),
    404: (
        "NotFound",
        "Nothing of that id belongs to this client, whether or not it exists.",
        ("task_not_found", "response_not_found", "item_not_found", "model_not_found", "not_found"),
        {},
    ),
    405: (
        "MethodNotAllowed",
        "The address is right, the verb is not.",
        ("method_not_allowed",),
        {"Allow": {"schema": {"type": "string"}}},
    ),
    409: (
        "Conflict",
        "The request does not fit what the thing is at present. `x-should-retry: false` where it never will.",
        ("task_not_finished", "response_not_finished", "response_cancelled"),
        {"x-should-retry": _SHOULD_RETRY},
    ),
    408: ("RequestTimeout", "The request took too long to arrive.", ("request_timeout",), {}),
    413: ("PayloadTooLarge", "The body is over the limit.", ("payload_too_large",), {}),
    415: ("UnsupportedMediaType", "The body is not sent as JSON.", ("unsupported_media_type",), {}),
    422: (
        "IdempotencyKeyReused",
        "The `Idempotency-Key` came with another request before.",
        ("idempotency_key_reused",),
        {},
    ),
    429: (
        "TooManyRequests",
        "The client has used a quota up, or so many programs wait for a person that no other can be added; nothing was "
        "stored. `x-should-retry: false` where it takes longer than a minute.",
        (
            *("rate_limit_exceeded", "too_many_queued_tasks", "insufficient_quota", "storage_quota_exceeded"),
            "too_many_pairings",
        ),
        {"Retry-After": _RETRY_AFTER, "x-should-retry": _SHOULD_RETRY, **_QUOTA},
    ),
    431: ("HeadersTooLarge", "The headers are too many, or too long.", ("headers_too_large",), {}),
    500: (
        "ServerError",
        "Something that the service did not foresee; of a chat completion also a generation that has failed, with the "
        "code of the task's error.",
        ("internal_error",),
        {"x-should-retry": _SHOULD_RETRY},
    ),
    503: (
        "Unavailable",
        "Nothing was stored; the same request may succeed in a moment.",
        ("database_locked", "database_unavailable", "stopping"),
        {"Retry-After": _RETRY_AFTER},
    ),
    507: (
        "InsufficientStorage",
        "The disk is full, or down to its reserve; nothing was stored.",
        ("insufficient_storage",),
        {"Retry-After": _RETRY_AFTER},
    ),
}

# The components that calls refer to.
RESPONSES: Schema = {
    name: {
        "description": f"{meaning} Codes: {', '.join(f'`{code}`' for code in codes)}.",
        "headers": headers,
        "content": {"application/json": {"schema": ref("Error")}},
    }
    for name, meaning, codes, headers in _ERRORS.values()
}


def of(path: str, method: str, operation: dict[str, Any]) -> set[int]:
    """Return the statuses of the errors that follow from how a call is made; others are named in its description.

    No call answers 405: that is what a verb gets that its address does not have.
    """
    statuses = {400, 431, 500}
    if operation.get("security"):
        statuses |= {401, 403, 429, 503}
    if "{" in path:
        statuses.add(404)
    if method == "post":
        statuses.add(413)
    if "requestBody" in operation:
        statuses |= {408, 415}
    return statuses


def reference(status: int) -> Schema:
    """Return what stands in a call for an error."""
    return {"$ref": f"#/components/responses/{_ERRORS[status][0]}"}
