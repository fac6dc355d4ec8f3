"""The admin's pages, registered once, in the processes that show them."""

from django.contrib import admin

from lmsp_site import admin_json


def register() -> None:
    """Find all pages, replace the runner's, which register themselves after ours, and how JSON is shown."""
    admin.autodiscover()
    from tasks_app.admin import jobs

    jobs.take_over()
    admin_json.take_over()
