"""The runner's own tables in the theme: jobs that were done, that failed and that wait, and what is scheduled.

A job carries nothing, so there is nothing in them to edit; what a job did is said by the tasks that it ran.
"""

from django.apps import apps
from django.contrib import admin
from django.contrib.admin.exceptions import NotRegistered

from lmsp_site.admin import ReadOnlyAdmin


class JobAdmin(ReadOnlyAdmin):
    """Jobs that have ended."""

    list_display = ("id", "func", "started", "stopped", "time_taken")
    search_fields = ("id", "func")
    search_help_text = "The id of a job, as a task has it"
    ordering = ("-stopped",)


class FailedJobAdmin(JobAdmin):
    """Jobs that ended by a fault of the service itself; the result is the traceback."""

    list_display = ("id", "func", "started", "stopped", "result")


class WaitingJobAdmin(ReadOnlyAdmin):
    """Bells that nobody has heard yet."""

    list_display = ("id", "key", "lock")


class ScheduleAdmin(ReadOnlyAdmin):
    """What is done again and again."""

    list_display = ("name", "func", "schedule_type", "minutes", "next_run")


_PAGES = {"success": JobAdmin, "failure": FailedJobAdmin, "ormq": WaitingJobAdmin, "schedule": ScheduleAdmin}


def take_over() -> None:
    """Replace the runner's pages. Its models are asked for by name: `tasks_app.queue` alone knows the package."""
    for name, page in _PAGES.items():
        model = apps.get_model("django_q", name)
        try:
            admin.site.unregister(model)
        except NotRegistered:
            continue
        admin.site.register(model, page)
