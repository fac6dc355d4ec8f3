"""Models: what this service can run."""

from django.apps import AppConfig


class ModelsConfig(AppConfig):
    """The catalogue of language models and the engines that run them."""

    name = "models_app"
    verbose_name = "Models"
