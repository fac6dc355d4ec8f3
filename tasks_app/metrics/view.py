"""GET /metrics."""

from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.views import APIView

from lmsp_site.views import AnyAccept
from tasks_app.metrics import exposition


class Metrics(APIView):
    """The service in numbers, for Prometheus; needs no credential, as ``/healthz`` does not."""

    authentication_classes = []
    permission_classes = []
    content_negotiation_class = AnyAccept

    def get(self, request: Request) -> HttpResponse:
        """Tell what can be found out now."""
        body, media_type = exposition.encode(request.headers.get("Accept", ""))
        return HttpResponse(body, content_type=media_type, headers={"Cache-Control": "no-store"})
