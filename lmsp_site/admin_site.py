"""The admin's own pages."""

from typing import Any

from django.contrib import messages
from django.contrib.admin import AdminSite
from django.http import HttpRequest
from django.template.response import TemplateResponse

from lmsp_site import health


class ServiceAdminSite(AdminSite):
    """The admin, whose start page says what hinders the service."""

    site_header = site_title = "LMSP service"
    index_title = "Administration"

    def index(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> TemplateResponse:
        """Show the start page, and above it what ``/readyz`` would say."""
        for fault in filter(None, health.checks().values()):
            messages.error(request, fault)
        for remark in health.remarks().values():
            messages.warning(request, remark)
        return super().index(request, extra_context)
