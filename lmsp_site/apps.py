"""The service as a Django app: it owns the table service_config."""

from django.apps import AppConfig, apps
from django.contrib.admin.apps import AdminConfig
from django.db.models.signals import post_migrate


class LmspSiteConfig(AppConfig):
    """Identity and configuration of the service."""

    name = "lmsp_site"
    verbose_name = "Service"

    def ready(self) -> None:
        """Have the roles made once all permissions are there: after the last app that has any."""
        from lmsp_site import roles

        post_migrate.connect(roles.bring_up_to_date, sender=apps.get_app_config("sessions"))


class ServiceAdminConfig(AdminConfig):
    """Django's admin with a start page of this service."""

    default_site = "lmsp_site.admin_site.ServiceAdminSite"

    def ready(self) -> None:
        """Find all pages, replace the runner's, which register themselves after ours, and how JSON is shown."""
        super().ready()
        from lmsp_site import admin_json
        from tasks_app.admin import jobs

        jobs.take_over()
        admin_json.take_over()
