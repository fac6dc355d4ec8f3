"""Pulls in the admin: begun, watched, and gone on with."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db import transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from lmsp_site import audit_log
from lmsp_site.admin import AuditedAdmin
from lmsp_site.audit_log import Action, Actor
from models_app import naming, pull_records
from models_app.models import ModelPull, PullState

_GB = 1e9


class PullForm(forms.ModelForm):
    """What to pull, and what to call it."""

    class Meta:
        model = ModelPull
        fields = ("source", "name", "revision")

    def clean_source(self) -> str:
        """Take what names a repository, and no path or address."""
        source: str = self.cleaned_data["source"]
        if not pull_records.is_source(source):
            raise forms.ValidationError("Must be OWNER/REPOSITORY, or OWNER/REPOSITORY:FILE.")
        return source

    def clean_name(self) -> str:
        """Take what can be a model's id."""
        name: str = self.cleaned_data["name"]
        if not naming.is_name(name):
            raise forms.ValidationError("Must have letters, digits and . _ : / - only.")
        return name

    def clean_revision(self) -> str:
        """Take what can be a name of git's."""
        revision: str = self.cleaned_data["revision"]
        if revision and not naming.is_name(revision):
            raise forms.ValidationError("Must have letters, digits and . _ / - only.")
        return revision


@admin.register(ModelPull)
class ModelPullAdmin(AuditedAdmin):
    """Downloads from the hub, newest first."""

    form = PullForm
    list_display = ("source", "name", "shown_state", "progress", "license", "error", "created_at")
    list_filter = ("state",)
    search_fields = ("source", "name")
    actions = ("go_on",)
    readonly_fields = ("shown_state", "progress", "license", "error", "created_at", "updated_at")
    show_full_result_count = False

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """Show how far it is once there is something to show."""
        return ("source", "name", "revision", *(self.readonly_fields if obj else ()))

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """A pull is what it was begun as; whoever may look at the list may act on it by ``go_on`` if he may add."""
        return obj is None and super().has_change_permission(request, obj)

    def save_model(self, request: HttpRequest, obj: Model, form: forms.ModelForm, change: bool) -> None:
        """Begin it, once its row can be seen by the process that carries it out."""
        super().save_model(request, obj, form, change)
        assert isinstance(obj, ModelPull)
        transaction.on_commit(lambda: pull_records.start(obj))

    @admin.display(description="state")
    def shown_state(self, pull: ModelPull) -> str:
        """Return the state, and whether anybody is still at it."""
        if pull.state == PullState.RUNNING and not pull_records.is_carried_out(pull):
            return "interrupted"
        return pull.get_state_display()

    @admin.display(description="progress")
    def progress(self, pull: ModelPull) -> str:
        """Return how much has come."""
        if not pull.total_bytes:
            return ""
        part = pull.done_bytes / pull.total_bytes
        return f"{part:.0%} of {pull.total_bytes / _GB:.2f} GB"

    @admin.action(description="Go on with selected pulls", permissions=["add"])
    def go_on(self, request: HttpRequest, pulls: QuerySet[ModelPull]) -> None:
        """Start again what was interrupted or has failed; what has come is not asked for again."""
        idle = [pull for pull in pulls.exclude(state=PullState.COMPLETED) if not pull_records.is_carried_out(pull)]
        for pull in idle:
            audit_log.record(Actor.admin(request), Action.CHANGED, pull, done="gone on with")
            pull_records.start(pull)
        self.message_user(request, f"{len(idle)} pulls go on.")
