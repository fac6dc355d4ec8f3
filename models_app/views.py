"""GET /v1/models and /v1/models/{id}."""

from collections.abc import Callable, Iterable
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from models_app import catalog, loading
from models_app.models import LanguageModel
from models_app.serializers import model_object

Speeds = Callable[[], dict[str, float]]


class _Models(APIView):
    """What is known of models.

    Attributes:
        speeds: tells, by id, how many tokens a second a model's tasks have seen; given by whoever counts them.
    """

    speeds: Speeds = staticmethod(dict)

    def shown(self, models: Iterable[LanguageModel]) -> list[dict[str, Any]]:
        """Return the objects of some models, as they are at one moment."""
        known, speeds = loading.states(), self.speeds()
        return [
            model_object(model, *loading.state_of(model, known), tokens_per_second=speeds.get(model.id))
            for model in models
        ]


class ModelList(_Models):
    """The models that tasks can name."""

    def get(self, request: Request) -> Response:
        """List them all."""
        models = self.shown(LanguageModel.objects.prefetch_related("aliases"))
        return Response(
            {
                "object": "list",
                "data": models,
                "first_id": models[0]["id"] if models else None,
                "last_id": models[-1]["id"] if models else None,
                "has_more": False,
            }
        )


class ModelDetail(_Models):
    """One model; its id may contain slashes."""

    def get(self, request: Request, model_id: str) -> Response:
        """Show it."""
        return Response(self.shown([catalog.find(model_id)])[0])
