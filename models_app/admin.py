"""Models in the admin: what is known of them, and what may be set for them."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest
from unfold.widgets import UnfoldAdminTextInputWidget

from lmsp_site import audit_log
from lmsp_site.audit_log import Action, Actor
from models_app import defaults, naming
from models_app.loading_admin import LoadingAdmin
from models_app.models import LanguageModel
from models_app.pull_admin import ModelPullAdmin
from models_app.refusals import CannotRegister

__all__ = ["LanguageModelAdmin", "ModelPullAdmin"]


class ModelSettingsForm(forms.ModelForm):
    """What may be set for a model; empty fields leave what holds for all models."""

    aliases = forms.CharField(
        required=False,
        max_length=2000,
        widget=UnfoldAdminTextInputWidget,
        help_text="By comma: what requests may call the model beside its id.",
    )
    temperature = forms.FloatField(required=False, widget=UnfoldAdminTextInputWidget)
    top_p = forms.FloatField(required=False, widget=UnfoldAdminTextInputWidget)
    presence_penalty = forms.FloatField(required=False, widget=UnfoldAdminTextInputWidget)
    frequency_penalty = forms.FloatField(required=False, widget=UnfoldAdminTextInputWidget)
    top_k = forms.IntegerField(required=False, widget=UnfoldAdminTextInputWidget)
    min_p = forms.FloatField(required=False, widget=UnfoldAdminTextInputWidget)
    repetition_penalty = forms.FloatField(required=False, widget=UnfoldAdminTextInputWidget)

    class Meta:
        model = LanguageModel
        fields = ("max_context_length", "keep_alive")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["aliases"] = ", ".join(alias.name for alias in self.instance.aliases.all())
        for name, setting in defaults.SAMPLING.items():
            self.initial[name] = self.instance.sampling.get(name)
            if name in self.fields:
                self.fields[name].help_text = f"{_range(setting)}, for requests that do not say. {setting.meaning}"

    def clean_aliases(self) -> list[str]:
        """Return the names, each once."""
        names = dict.fromkeys(name.strip() for name in self.cleaned_data["aliases"].split(",") if name.strip())
        try:
            naming.check_aliases(self.instance, names)
        except CannotRegister as refusal:
            raise forms.ValidationError(str(refusal)) from refusal
        return list(names)

    def clean_max_context_length(self) -> int | None:
        """Bound it by what the model was trained for."""
        value: int | None = self.cleaned_data["max_context_length"]
        most = defaults.most_context(self.instance)
        if value is not None and not min(defaults.LEAST_CONTEXT, most) <= value <= most:
            raise forms.ValidationError(f"Must be from {min(defaults.LEAST_CONTEXT, most)} to {most} tokens.")
        return value

    def clean(self) -> dict[str, Any]:
        """Put the sampling defaults together."""
        cleaned = super().clean() or self.cleaned_data
        for name, setting in defaults.SAMPLING.items():
            value = cleaned.get(name)
            if value is not None and not setting.least <= value <= setting.most:
                self.add_error(name, f"{_range(setting)}.")
        self.instance.sampling = {name: cleaned[name] for name in defaults.SAMPLING if cleaned.get(name) is not None}
        return cleaned


def _range(setting: defaults.Setting) -> str:
    return f"From {setting.least:,} to {setting.most:,}"


@admin.register(LanguageModel)
class LanguageModelAdmin(LoadingAdmin):
    """The catalogue; ``add_model`` adds to it, and ``remove_model`` takes from it."""

    form = ModelSettingsForm
    list_display: tuple[str, ...] = ("id", "architecture", "quantization", "on_disk", "license", "created_at")
    list_filter = ("file_state", "format", "engine")
    search_fields = ("id", "aliases__name", "architecture", "base_model")
    show_full_result_count = False
    fieldsets = ((None, {"fields": ("aliases", *ModelSettingsForm.Meta.fields, *defaults.SAMPLING)}),)

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """Return what may be set; to somebody who may set nothing, there is nothing of it to show as a form."""
        return super().get_fieldsets(request, obj) if self.has_change_permission(request, obj) else []

    def has_add_permission(self, request: HttpRequest) -> bool:
        """A row comes with its files: there is another page for that."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """With the row alone its files would be left."""
        return False

    def save_model(self, request: HttpRequest, obj: Model, form: forms.ModelForm, change: bool) -> None:
        """Store what may be set, and nothing that a worker has found out about the files meanwhile."""
        assert isinstance(obj, LanguageModel)
        before = naming.aliases_of(obj)
        stored = LanguageModel.objects.get(pk=obj.pk)
        for name in ("sampling", *ModelSettingsForm.Meta.fields):
            setattr(stored, name, getattr(obj, name))
        super().save_model(request, stored, form, change)
        after = sorted(form.cleaned_data["aliases"])
        if after != before:
            naming.set_aliases(stored, after)
            changes = {"aliases": {"from": before, "to": after}}
            audit_log.record(Actor.admin(request), Action.CHANGED, stored, changes=changes)

    @admin.display(description="on disk", ordering="size_bytes")
    def on_disk(self, model: LanguageModel) -> str:
        """Return the size of its files as people read it."""
        return f"{model.size_bytes / (1 << 20):,.0f} MB"
