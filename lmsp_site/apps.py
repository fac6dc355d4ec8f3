"""The service as a Django app: it owns the table service_config."""

from importlib import import_module
from typing import Any

from django.apps import AppConfig, apps
from django.conf import settings
from django.contrib.admin.apps import SimpleAdminConfig
from django.contrib.admin.checks import check_admin_app, check_dependencies
from django.core import checks
from django.db.models.signals import post_migrate


class LmspSiteConfig(AppConfig):
    """Identity and configuration of the service."""

    name = "lmsp_site"
    verbose_name = "Service"

    def ready(self) -> None:
        """Have the roles made once all permissions are there: after the last app that has any."""
        from lmsp_site import roles

        post_migrate.connect(roles.bring_up_to_date, sender=apps.get_app_config("sessions"))


class ServiceAdminConfig(SimpleAdminConfig):
    """Django's admin with a start page of this service.

    Its pages are registered with the addresses (``urls.py``): workers and commands show none, and start in half the
    time without them.
    """

    default_site = "lmsp_site.admin_site.ServiceAdminSite"

    def ready(self) -> None:
        """Have the pages checked with everything else, once they are there."""
        checks.register(check_dependencies, checks.Tags.admin)
        checks.register(_check_pages, checks.Tags.admin)


def _check_pages(app_configs: Any, **options: Any) -> list[checks.CheckMessage]:
    import_module(settings.ROOT_URLCONF)
    messages: list[checks.CheckMessage] = check_admin_app(app_configs, **options)
    return messages
