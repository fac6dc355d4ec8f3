"""The service as a Django app: it owns the table service_config."""

from django.apps import AppConfig
from django.contrib.admin.apps import AdminConfig


class LmspSiteConfig(AppConfig):
    """Identity and configuration of the service."""

    name = "lmsp_site"
    verbose_name = "Service"


class ServiceAdminConfig(AdminConfig):
    """Django's admin with a start page of this service."""

    default_site = "lmsp_site.admin_site.ServiceAdminSite"
