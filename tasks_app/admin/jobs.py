"""The runner's own tables: jobs that were done, that failed and that wait, and what is scheduled.

A job carries nothing, so there is nothing in them to edit; what a job did is said by the tasks that it ran.
"""

from typing import Any, NamedTuple

from django.apps import apps
from django.contrib import admin
from django.contrib.admin.exceptions import NotRegistered
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from lmsp_site.admin_tables import ReadOnlyAdmin
from tasks_app.console import figures

_MEANING = {
    "tasks_app.worker.run_claimable": "run queued tasks",
    "tasks_app.retention.purge_on_schedule": "remove what is old",
    "tasks_app.model_checks.verify_on_schedule": "read model files that look changed",
}
_RUNS_TASKS = "tasks_app.worker.run_claimable"


class JobAdmin(ReadOnlyAdmin):
    """Jobs that have ended."""

    list_display: tuple[str, ...] = ("name", "purpose", "started", "took", "tasks")
    search_fields = ("id", "name")
    search_help_text = "The id of a job, as a task has it, or its name"
    ordering = ("-stopped",)
    fields = ("id", "name", "purpose", "started", "took", "tasks", "shown_result")
    readonly_fields = fields
    list_per_page = 40
    nothing_yet = "No job has ended yet. Each runs queued tasks, or does what is scheduled; the newest 250 are kept."

    @admin.display(description="does", ordering="func")
    def purpose(self, job: Any) -> str:
        """What it is for."""
        return str(_MEANING.get(job.func, job.func))

    @admin.display(description="took")
    def took(self, job: Any) -> str:
        """How long it ran."""
        return figures.span(figures.since(job.started, job.stopped))

    @admin.display(description="tasks")
    def tasks(self, job: Any) -> SafeString | str:
        """Where the tasks are that it ran last; a task that was run again since has another job."""
        if job.func != _RUNS_TASKS:
            return "-"
        return format_html('<a href="{}?q={}">Tasks it ran</a>', reverse("admin:tasks_app_task_changelist"), job.pk)

    @admin.display(description="result")
    def shown_result(self, job: Any) -> SafeString | str:
        """What it returned; of one that failed, the traceback."""
        return format_html('<pre class="json">{}</pre>', job.result) if job.result else "-"


class FailedJobAdmin(JobAdmin):
    """Jobs that ended by a fault of the service itself."""

    list_display = ("name", "purpose", "started", "took", "fault", "tasks")
    nothing_yet = (
        "No job has failed. One fails by a fault of the service itself; a task that fails is listed with the tasks."
    )

    @admin.display(description="fault")
    def fault(self, job: Any) -> str:
        """The first line; the page has the traceback."""
        lines = str(job.result or "").strip().splitlines()
        return lines[0][:200] if lines else "-"


class WaitingJobAdmin(ReadOnlyAdmin):
    """Bells that nobody has heard yet."""

    list_display = ("id", "purpose", "since")
    fields = ("purpose", "since")
    readonly_fields = fields
    nothing_yet = (
        "No job waits: a free worker takes one within milliseconds. Tasks that wait are listed with the tasks."
    )

    @admin.display(description="does")
    def purpose(self, waiting: Any) -> str:
        """What it is for."""
        return str(_MEANING.get(waiting.func(), waiting.func()))

    @admin.display(description="waits since", ordering="lock")
    def since(self, waiting: Any) -> Any:
        """When it was put there."""
        return waiting.lock


class ScheduleAdmin(ReadOnlyAdmin):
    """What is done again and again."""

    list_display = ("name", "purpose", "interval", "next_run", "last")
    fields = ("name", "func", "purpose", "interval", "next_run", "last")
    readonly_fields = fields
    nothing_yet = "Nothing is scheduled yet: the workers do that when they are started."

    @admin.display(description="does")
    def purpose(self, schedule: Any) -> str:
        """What it is for."""
        return str(_MEANING.get(schedule.func, schedule.func))

    @admin.display(description="every", ordering="minutes")
    def interval(self, schedule: Any) -> str:
        """How often."""
        return f"{schedule.minutes} min" if schedule.minutes else str(schedule.get_schedule_type_display())

    @admin.display(description="last job")
    def last(self, schedule: Any) -> SafeString | str:
        """The job that did it last, while the runner keeps it."""
        page = page_of(schedule.task or "")
        return format_html('<a href="{}">{}</a>', page, "open it") if page else "-"


def page_of(job_id: str) -> str | None:
    """Return the page of a job that has ended, while the runner keeps it."""
    for name in ("success", "failure"):
        if job_id and apps.get_model("django_q", name).objects.filter(pk=job_id).exists():
            return reverse(f"admin:django_q_{name}_change", args=[job_id])
    return None


class _Page(NamedTuple):
    admin: type[ReadOnlyAdmin]
    name: str
    plural: str


_PAGES = {
    "success": _Page(JobAdmin, "job", "jobs"),
    "failure": _Page(FailedJobAdmin, "failed job", "failed jobs"),
    "ormq": _Page(WaitingJobAdmin, "waiting job", "waiting jobs"),
    "schedule": _Page(ScheduleAdmin, "schedule", "schedules"),
}


def take_over() -> None:
    """Replace the runner's pages. Its models are asked for by name: `tasks_app.queue` alone knows the package."""
    for name, page in _PAGES.items():
        model = apps.get_model("django_q", name)
        # What it calls tasks are none of this service.
        model._meta.verbose_name, model._meta.verbose_name_plural = page.name, page.plural
        try:
            admin.site.unregister(model)
        except NotRegistered:
            continue
        admin.site.register(model, page.admin)
