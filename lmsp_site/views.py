"""How the protocol sits on Django REST framework: strict JSON in, the error envelope out."""

import json
import sys
from collections.abc import Mapping
from typing import Any

from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, JsonResponse
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from lmsp_site import errors, strict_json


def json_body(request: Request) -> dict[str, Any]:
    """Return the body of `request`, by the rules that streams and foreground calls have too.

    Raises:
        UnsupportedMediaType: the body is not sent as JSON.
        InvalidRequest: see ``strict_json.parse_object``.
    """
    strict_json.require_media_type(request.headers.get("Content-Type"))
    return strict_json.parse_object(request.body)


class ProtocolJSONRenderer(BaseRenderer):
    """Compact UTF-8 JSON."""

    media_type = "application/json"
    format = "json"
    charset = None

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes:
        """Encode `data`; ``None`` is an empty body (204)."""
        return b"" if data is None else encode(data)


class AnyAccept(BaseContentNegotiation):
    """Refuses nobody for what they accept: for views that have one format, or choose it themselves."""

    def select_renderer(self, request: Request, renderers: Any, format_suffix: str | None = None) -> Any:
        """Return the first, which errors are answered with."""
        return renderers[0], renderers[0].media_type


def encode(data: Any) -> bytes:
    """Return `data` as compact UTF-8 JSON."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def exception_handler(error: Exception, _context: dict[str, Any]) -> Response:
    """Answer every exception of an API view in the protocol's envelope."""
    known = errors.to_protocol(error)
    return Response(known.body(), status=known.status, headers=known.headers)


def _answer(error: errors.ProtocolError) -> HttpResponse:
    return JsonResponse(error.body(), status=error.status, headers=error.headers)


def bad_request(_request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer what Django refuses before any view: unknown hosts, oversized forms."""
    known = errors.to_protocol(exception)
    return _answer(known if known.status < 500 else errors.InvalidRequest("The request cannot be read."))


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer an address that leads nowhere; Django names the second argument."""
    del exception
    return _answer(errors.NotFound(f"There is nothing at {request.path}."))


def csrf_failure(_request: HttpRequest, reason: str = "") -> HttpResponse:
    """Answer a form that does not come from the page that it should come from; Django names the second argument."""
    message = f"{reason.rstrip('.')}. Open the page again and send its form from there."
    if "Origin checking failed" in reason:
        message += " Behind a proxy that takes the encryption off, LMSP_TRUSTED_PROXIES has to name it."
    return _answer(errors.Forbidden(message, code="csrf_failed"))


def server_error(_request: HttpRequest) -> HttpResponse:
    """Answer an exception outside the API views; Django has logged it. A full disk is called by its name there too."""
    error = sys.exception()
    if isinstance(error, DatabaseError) and (known := errors.storage_error(error)):
        return _answer(known)
    return _answer(errors.ServerError("The service failed to answer this request; its log says why."))
