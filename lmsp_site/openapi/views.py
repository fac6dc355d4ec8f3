"""GET /v1/openapi.json and the page that shows it."""

from django.http import HttpResponse
from django.utils.decorators import method_decorator
from django.views.decorators.http import condition
from drf_spectacular.utils import OpenApiResponse, extend_schema
from drf_spectacular.views import SpectacularSwaggerSplitView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from lmsp_site.openapi.document import document
from lmsp_site.openapi.parameters import header
from lmsp_site.views import AnyAccept, ProtocolJSONRenderer

_ETAG = condition(etag_func=lambda *_args, **_kwargs: document().etag)


class Description(APIView):
    """What the service can be asked, as OpenAPI; needs no credential, since no client of it has one before."""

    authentication_classes = []
    permission_classes = []
    content_negotiation_class = AnyAccept

    @extend_schema(
        operation_id="describe",
        summary="This document",
        description="",
        tags=["Service"],
        parameters=[header("If-None-Match", {"type": "string"}, "The `ETag` of a document that is at hand.")],
        responses={
            200: OpenApiResponse({"type": "object"}, "The description of the API, as OpenAPI 3.1."),
            304: OpenApiResponse(None, "The document that is at hand is the one there is."),
        },
    )
    @method_decorator(_ETAG)
    def get(self, request: Request) -> HttpResponse:
        """Return the document."""
        headers = {"Cache-Control": "public, max-age=300"}
        return HttpResponse(document().body, content_type="application/json", headers=headers)


class Page(SpectacularSwaggerSplitView):
    """The description to read and to try out; nothing on the page comes from another host."""

    authentication_classes = []
    permission_classes = []
    content_negotiation_class = AnyAccept
    url_name = "openapi"
    title = "LMSP service: API"
    template_name = "lmsp_site/docs.html"
    template_name_js = "lmsp_site/docs.js"

    def handle_exception(self, exc: Exception) -> Response:
        """Answer errors in the protocol's envelope, which no template is needed for."""
        self.request.accepted_renderer = ProtocolJSONRenderer()
        self.request.accepted_media_type = ProtocolJSONRenderer.media_type
        answer: Response = super().handle_exception(exc)
        return answer
