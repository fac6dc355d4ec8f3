"""Every error a client can see, and its one way into the protocol's JSON."""

import logging
from typing import Any

from django.core.exceptions import DisallowedHost, PermissionDenied
from django.db import DatabaseError
from django.http import Http404
from rest_framework import exceptions as drf

logger = logging.getLogger(__name__)


class ProtocolError(Exception):
    """An error in the protocol's envelope: ``{"error": {"message", "type", "param", "code"}}``."""

    status = 400
    type = "invalid_request_error"
    code: str | None = None

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.code
        self.param = param
        self.headers = headers or {}

    def body(self) -> dict[str, Any]:
        """Return the JSON body of the answer."""
        return {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}


class InvalidRequest(ProtocolError):
    """The request cannot be meant as it stands."""

    code = "invalid_request"


class Unauthenticated(ProtocolError):
    """No token, or none that is known."""

    status = 401
    type = "authentication_error"
    code = "invalid_token"

    def __init__(self, message: str) -> None:
        super().__init__(message, headers={"WWW-Authenticate": 'Bearer realm="lmsp"'})


class Forbidden(ProtocolError):
    """The token lacks the scope."""

    status = 403
    type = "permission_error"
    code = "insufficient_scope"


class NotFound(ProtocolError):
    """Nothing of that id belongs to this client, whether or not it exists."""

    status = 404
    type = "not_found_error"
    code = "not_found"


class MethodNotAllowed(ProtocolError):
    """The address is right, the verb is not."""

    status = 405
    code = "method_not_allowed"


class Conflict(ProtocolError):
    """The request does not fit what the thing is at present."""

    status = 409
    code = "conflict"

    def __init__(self, message: str, *, code: str, param: str | None = None, retry: bool) -> None:
        # The official clients send a 409 again by themselves, unless they are told not to.
        headers = None if retry else {"x-should-retry": "false"}
        super().__init__(message, code=code, param=param, headers=headers)


class RequestTimeout(ProtocolError):
    """The request takes too long to arrive."""

    status = 408
    code = "request_timeout"


class PayloadTooLarge(ProtocolError):
    """The body is over the limit."""

    status = 413
    code = "payload_too_large"


class UnsupportedMediaType(ProtocolError):
    """The body is not JSON."""

    status = 415
    code = "unsupported_media_type"


class HeadersTooLarge(ProtocolError):
    """The headers are too many, or too long."""

    status = 431
    code = "headers_too_large"


class IdempotencyKeyReused(ProtocolError):
    """The key came with another request before."""

    status = 422
    type = "idempotency_error"
    code = "idempotency_key_reused"


class ServerError(ProtocolError):
    """Something this service did not foresee; the log has the traceback."""

    status = 500
    type = "server_error"
    code = "internal_error"


class Unavailable(ProtocolError):
    """Nothing was stored; the same request may succeed in a moment."""

    status = 503
    type = "server_error"
    code = "unavailable"

    def __init__(self, message: str, *, code: str | None = None, retry_after: int = 1) -> None:
        super().__init__(message, code=code, headers={"Retry-After": str(retry_after)})


class InsufficientStorage(Unavailable):
    """The disk has no room; nothing was stored."""

    status = 507
    code = "insufficient_storage"


class TooManyRequests(Unavailable):
    """A bound on what waits is reached; nothing was stored."""

    status = 429
    type = "rate_limit_error"
    code = "too_many_requests"


def unknown_host() -> InvalidRequest:
    """Return the error of a caller who names a host that this service does not go by."""
    return InvalidRequest(
        "This service is not known by that host name. Use 127.0.0.1 or localhost, or have its operator name the host "
        "in LMSP_ALLOWED_HOSTS.",
        code="invalid_host",
    )


def storage_error(error: DatabaseError) -> ProtocolError | None:
    """Name what ails the database, or None where the fault is this program's own.

    SQLite tells its faults by message alone once Django has wrapped them; the original carries the code.
    """
    text = str(error)
    if "is full" in text:
        return InsufficientStorage(
            "The disk that holds the service's data is full. Free some space; nothing was stored.",
            retry_after=30,
        )
    if "locked" in text or "busy" in text:
        return Unavailable(
            "The database is locked by another process. Nothing was stored; try again.",
            code="database_locked",
        )
    for fault in ("disk I/O error", "readonly database", "unable to open database"):
        if fault in text:
            return Unavailable(
                f"The database cannot be used: {fault}. Nothing was stored.",
                code="database_unavailable",
                retry_after=10,
            )
    return None


def _from_drf(error: drf.APIException) -> ProtocolError:
    detail = error.detail
    if isinstance(error, drf.ValidationError):
        message, param = first_message(detail)
        return InvalidRequest(message, param=param, code="invalid_value")
    if isinstance(error, drf.MethodNotAllowed):
        return MethodNotAllowed(str(detail))
    if isinstance(error, drf.UnsupportedMediaType):
        return UnsupportedMediaType("Send the body as JSON, with Content-Type: application/json.")
    if isinstance(error, drf.NotAcceptable):
        return InvalidRequest("This address answers application/json.", code="not_acceptable")
    return InvalidRequest(str(detail))


def first_message(detail: Any, path: str = "") -> tuple[str, str | None]:
    """Return the first message of nested validation errors and the dotted name of its field."""
    if isinstance(detail, dict):
        name, inner = next(iter(detail.items()))
        if name == "non_field_errors":
            return first_message(inner, path)
        return first_message(inner, f"{path}.{name}" if path else str(name))
    if isinstance(detail, list):
        for index, inner in enumerate(detail):
            if inner:
                nested = isinstance(inner, dict)
                return first_message(inner, f"{path}[{index}]" if nested else path)
    return (f"{path}: {detail}" if path else str(detail)), path or None


def to_protocol(error: Exception) -> ProtocolError:
    """Translate any exception; what nobody foresaw is logged and becomes a 500 without its details."""
    if isinstance(error, ProtocolError):
        return error
    if isinstance(error, drf.APIException):
        return _from_drf(error)
    if isinstance(error, Http404):
        return NotFound("There is nothing at this address.")
    if isinstance(error, PermissionDenied):
        return Forbidden("This is not allowed.", code="forbidden")
    if isinstance(error, DisallowedHost):
        return unknown_host()
    if isinstance(error, DatabaseError) and (known := storage_error(error)):
        logger.warning("storage fault", extra={"error": str(error)})
        return known
    logger.error("unforeseen error", exc_info=error)
    return ServerError("The service failed to answer this request; its log says why.")
