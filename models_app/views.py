"""GET /v1/models and /v1/models/{id}."""

from django.conf import settings
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from models_app import catalog
from models_app.engines.client import EngineUnavailable, HostClient
from models_app.models import LanguageModel
from models_app.serializers import model_object


def _state(model: LanguageModel) -> str:
    try:
        loaded = HostClient(settings.LMSP.run_dir).find(model.digest)
    except EngineUnavailable:
        return "unavailable"
    return "loaded" if loaded else "available"


class ModelList(APIView):
    """The models that tasks can name."""

    def get(self, request: Request) -> Response:
        """List them all."""
        models = [model_object(model, _state(model)) for model in LanguageModel.objects.all()]
        return Response(
            {
                "object": "list",
                "data": models,
                "first_id": models[0]["id"] if models else None,
                "last_id": models[-1]["id"] if models else None,
                "has_more": False,
            }
        )


class ModelDetail(APIView):
    """One model; its id may contain slashes."""

    def get(self, request: Request, model_id: str) -> Response:
        """Show it."""
        model = catalog.find(model_id)
        return Response(model_object(model, _state(model)))
