"""GET /metrics."""

from typing import Any

from django.http import HttpResponse
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.request import Request
from rest_framework.views import APIView

from tasks_app.metrics import exposition


class _AnyAccept(BaseContentNegotiation):
    """Refuses nobody for what they accept: the exposition chooses among its formats, and has one for all others."""

    def select_renderer(self, request: Request, renderers: Any, format_suffix: str | None = None) -> Any:
        """Return the first, which errors are answered with."""
        return renderers[0], renderers[0].media_type


class Metrics(APIView):
    """The service in numbers, for Prometheus; needs no credential, as ``/healthz`` does not."""

    authentication_classes = []
    permission_classes = []
    content_negotiation_class = _AnyAccept

    def get(self, request: Request) -> HttpResponse:
        """Tell what can be found out now."""
        body, media_type = exposition.encode(request.headers.get("Accept", ""))
        return HttpResponse(body, content_type=media_type, headers={"Cache-Control": "no-store"})
