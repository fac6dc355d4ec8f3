"""The catalogue: finding a registered model, and what an engine needs to load it."""

from django.conf import settings

from lmsp_site.errors import NotFound
from models_app import naming
from models_app.engines.base import ModelSpec
from models_app.importing import register as register
from models_app.models import LanguageModel
from models_app.refusals import CannotRegister as CannotRegister


def find(name: str) -> LanguageModel:
    """Return the registered model with the id or alias `name`.

    Raises:
        NotFound: there is none (``model_not_found``).
    """
    model = naming.find(name)
    if model is None:
        raise NotFound(
            f"The model {name!r} is not registered here; GET /v1/models lists those that are.",
            code="model_not_found",
            param="model",
        )
    return model


def engine_spec(model: LanguageModel) -> ModelSpec:
    """Return what an engine needs to load `model`."""
    return ModelSpec(
        key=model.engine_key,
        engine=model.engine,
        path=str(model.path),
        digest=model.digest,
        context_length=model.context_length,
        slots=settings.LMSP.max_running,
        threads=settings.LMSP.engine_threads,
        prefix_bytes=settings.LMSP.prefix_bytes,
    )
