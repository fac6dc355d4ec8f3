"""The service as a Django app: it owns the table service_config."""

from django.apps import AppConfig


class LmspSiteConfig(AppConfig):
    """Identity and configuration of the service."""

    name = "lmsp_site"
    verbose_name = "Service"
