"""Models in the admin."""

from django.contrib import admin

from lmsp_site.admin import AuditedAdmin, ReadOnlyAdmin
from models_app.models import LanguageModel


@admin.register(LanguageModel)
class LanguageModelAdmin(ReadOnlyAdmin, AuditedAdmin):
    """The catalogue; ``add_model`` adds to it."""

    list_display = ("id", "engine", "format", "architecture", "size_bytes", "created_at")
    search_fields = ("id",)
