"""Tasks in the admin: to be seen, cancelled, run again, and removed when they have finished; never edited."""

import json
from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST

from lmsp_site.admin_tables import ReadOnlyAdmin
from lmsp_site.audit_log import Actor
from lmsp_site.errors import ProtocolError
from lmsp_site.models import RestartPolicy
from tasks_app import managing
from tasks_app.admin import task_list, task_page
from tasks_app.console import figures, listing
from tasks_app.console.deeds import NothingToRun
from tasks_app.models import Priority, Task, TaskQuerySet

_SHOWN_REFUSALS = 5
_Refusals = (ProtocolError, NothingToRun)
_CHANGE = "tasks_app.change_task"
_DELETE = "tasks_app.delete_task"


class AmendForm(forms.Form):
    """Another priority or policy for a task that waits."""

    priority = forms.TypedChoiceField(choices=Priority, coerce=int, required=False, empty_value=None)
    on_restart = forms.ChoiceField(choices=RestartPolicy, required=False)


@admin.register(Task)
class TaskAdmin(ReadOnlyAdmin):
    """Every task. What becomes of one is done by the same functions that clients call, and is in the audit log."""

    list_display = ("task", "state", "client", "model", "policy", "tokens", "age", "took", "note")
    list_display_links = ("task",)
    list_filter = task_list.FILTERS
    list_select_related = ("client",)
    sortable_by = ()
    search_fields = ("id",)
    search_help_text = "The beginning of an id, or a text in the metadata"
    actions = ("cancel", "rerun", "remove", "export")
    list_disable_select_all = True

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Find pages without counting."""
        return task_list.TaskChangeList

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        """Whoever may only look at tasks may not end them."""
        return request.user.has_perm(_CHANGE)

    def has_remove_permission(self, request: HttpRequest) -> bool:
        """To remove is more than to end."""
        return request.user.has_perm(_DELETE)

    @admin.display(description="task")
    def task(self, task: Task) -> SafeString:
        """The end of the id, which tells tasks apart; the page has all of it."""
        return format_html('<span class="code" data-row="{}" title="{}">…{}</span>', task.id, task.id, task.id[-10:])

    @admin.display(description="status")
    def state(self, task: Task) -> SafeString:
        """The state, which the page keeps up to date."""
        return task_page.badge(task.status)

    @admin.display(description="policy")
    def policy(self, task: Task) -> str:
        """What becomes of it after a restart."""
        return task.on_restart

    @admin.display(description="in / out")
    def tokens(self, task: Task) -> SafeString:
        """Tokens of the prompt and of the answer so far."""
        return format_html(
            '<span>{} / <span data-cell="output_tokens">{}</span></span>', task.input_tokens, task.output_tokens
        )

    @admin.display(description="age")
    def age(self, task: Task) -> SafeString:
        """How long ago it was accepted."""
        return format_html('<time title="{}">{}</time>', task.created_at, figures.span(figures.since(task.created_at)))

    @admin.display(description="took")
    def took(self, task: Task) -> SafeString:
        """From its first claim to its end."""
        lasted = figures.span(figures.since(task.started_at, task.finished_at))
        return format_html('<span data-cell="took">{}</span>', lasted)

    @admin.display(description="note")
    def note(self, task: Task) -> SafeString:
        """What it waits for, or why it ended."""
        # The place in the queue comes with the first live update.
        said = "" if task.status == "queued" else listing.note(task, None)
        return format_html('<span data-cell="note">{}</span>', said)

    @admin.action(description="Cancel selected tasks", permissions=["cancel"])
    def cancel(self, request: HttpRequest, tasks: TaskQuerySet) -> None:
        """Cancel what is not finished, and say of the others why they are not."""
        self._do_each(request, tasks, "Cancelled", lambda task: managing.cancel(task, Actor.admin(request)))

    @admin.action(description="Run selected tasks again, as new tasks", permissions=["cancel"])
    def rerun(self, request: HttpRequest, tasks: TaskQuerySet) -> None:
        """Accept a new task for each."""
        self._do_each(request, tasks, "Accepted again", lambda task: managing.rerun(task, Actor.admin(request)))

    @admin.action(description="Delete selected tasks that have finished", permissions=["remove"])
    def remove(self, request: HttpRequest, tasks: TaskQuerySet) -> None:
        """Delete the finished ones, and refuse the others."""
        self._do_each(request, tasks, "Deleted", lambda task: managing.delete(task, Actor.admin(request)))

    @admin.action(description="Export selected tasks as JSON", permissions=["view"])
    def export(self, request: HttpRequest, tasks: TaskQuerySet) -> HttpResponse:
        """Answer with everything that is known of them."""
        return _exported([task_page.exported(task) for task in task_list.of_selected(tasks)], "tasks")

    def _do_each(
        self, request: HttpRequest, tasks: TaskQuerySet, done: str, deed: Callable[[Task], object]
    ) -> list[Task]:
        succeeded, refusals = [], []
        for task in task_list.of_selected(tasks):
            try:
                deed(task)
            except _Refusals as refusal:
                refusals.append(str(refusal))
            else:
                succeeded.append(task)
        if succeeded:
            count = len(succeeded)
            self.message_user(request, f"{done}: {count} {'task' if count == 1 else 'tasks'}.", messages.SUCCESS)
        for refusal_text in refusals[:_SHOWN_REFUSALS]:
            self.message_user(request, refusal_text, messages.ERROR)
        if len(refusals) > _SHOWN_REFUSALS:
            more = len(refusals) - _SHOWN_REFUSALS
            self.message_user(request, f"{more} more were refused for such reasons.", messages.ERROR)
        return succeeded

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show one task; there is nothing to edit."""
        task = self.get_object(request, unquote(object_id))
        if request.method == "POST" or not self.has_view_permission(request, task):
            raise PermissionDenied
        if task is None:
            # Django's answer: back to the start page with a message.
            return super().change_view(request, object_id, form_url, extra_context)
        context = {
            **self.admin_site.each_context(request),
            **task_page.context(task, request.GET),
            "opts": self.opts,
            "original": task,
            "title": f"…{task.id[-10:]}",
            "subtitle": None,
            "may_change": request.user.has_perm(_CHANGE),
            "may_delete": request.user.has_perm(_DELETE),
            "amend": AmendForm(initial={"priority": task.priority, "on_restart": task.on_restart}),
        }
        return TemplateResponse(request, "tasks_app/admin/task.html", context)

    def get_urls(self) -> list[URLPattern]:
        """Add where the buttons of a task's page lead."""
        deeds = {
            "cancel": self._cancel_one,
            "rerun": self._rerun_one,
            "amend": self._amend_one,
            "remove": self._remove_one,
        }
        urls = [
            path(
                f"<path:object_id>/{name}/",
                self.admin_site.admin_view(require_POST(view)),
                name=f"tasks_app_task_{name}",
            )
            for name, view in deeds.items()
        ]
        export = path(
            "<path:object_id>/export/", self.admin_site.admin_view(self._export_one), name="tasks_app_task_export"
        )
        return [*urls, export, *super().get_urls()]

    def _cancel_one(self, request: HttpRequest, object_id: str) -> HttpResponse:
        tasks = self._named(request, object_id, _CHANGE)
        self._do_each(request, tasks, "Cancelled", lambda task: managing.cancel(task, Actor.admin(request)))
        return self._back(tasks, object_id)

    def _rerun_one(self, request: HttpRequest, object_id: str) -> HttpResponse:
        tasks = self._named(request, object_id, _CHANGE)
        accepted: list[Task] = []
        self._do_each(
            request, tasks, "Accepted again", lambda task: accepted.append(managing.rerun(task, Actor.admin(request)))
        )
        return self._back(tasks, accepted[0].pk if accepted else object_id)

    def _amend_one(self, request: HttpRequest, object_id: str) -> HttpResponse:
        tasks = self._named(request, object_id, _CHANGE)
        form = AmendForm(request.POST)
        if form.is_valid():
            wanted = {"priority": form.cleaned_data["priority"], "on_restart": form.cleaned_data["on_restart"] or None}
            self._do_each(request, tasks, "Changed", lambda task: managing.amend(task, Actor.admin(request), **wanted))
        else:
            self.message_user(request, "Choose a priority and a policy of those that are listed.", messages.ERROR)
        return self._back(tasks, object_id)

    def _remove_one(self, request: HttpRequest, object_id: str) -> HttpResponse:
        tasks = self._named(request, object_id, _DELETE)
        self._do_each(request, tasks, "Deleted", lambda task: managing.delete(task, Actor.admin(request)))
        return self._back(tasks, object_id)

    def _export_one(self, request: HttpRequest, object_id: str) -> HttpResponse:
        tasks = self._named(request, object_id, "tasks_app.view_task")
        return _exported([task_page.exported(task) for task in tasks], object_id)

    def _named(self, request: HttpRequest, object_id: str, permission: str) -> TaskQuerySet:
        if not request.user.has_perm(permission):
            raise PermissionDenied
        return Task.objects.kept().select_related("client", "response").filter(pk=unquote(object_id))

    def _back(self, tasks: TaskQuerySet, task_id: str) -> HttpResponse:
        if not Task.objects.kept().filter(pk=unquote(task_id)).exists():
            return HttpResponseRedirect(reverse("admin:tasks_app_task_changelist"))
        return HttpResponseRedirect(reverse("admin:tasks_app_task_change", args=[task_id]))


def _exported(items: list[dict[str, Any]], name: str) -> HttpResponse:
    text = json.dumps(items if len(items) != 1 else items[0], indent=2, ensure_ascii=False)
    answer = HttpResponse(text, content_type="application/json")
    answer["Content-Disposition"] = f'attachment; filename="{name}.json"'
    return answer
