"""Models in the admin."""

from django.contrib import admin

from lmsp_site.admin import AuditedAdmin, ReadOnlyAdmin
from models_app.loading_admin import LoadingAdmin
from models_app.models import LanguageModel


@admin.register(LanguageModel)
class LanguageModelAdmin(LoadingAdmin, ReadOnlyAdmin, AuditedAdmin):
    """The catalogue; ``add_model`` adds to it."""

    list_display = ("id", "state", "engine", "format", "architecture", "size_bytes", "created_at")
    search_fields = ("id",)
