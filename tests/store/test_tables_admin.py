"""What the service keeps beneath the tasks, in the admin: found by its index, read, and linked with its task."""

import html
import re
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.test import Client as Browser
from django.utils import timezone

from clients_app.models import Client
from lmsp_site import roles
from tasks_app import queue
from tasks_app.models import IdempotencyKey, Task
from tasks_app.states import Status
from tests.store.pairings import browser, person, text
from tests.store.tasks import new_task, put

TASKS = "/admin/tasks_app/task/"
EMPTY = {
    "django_q/success": "No job has ended yet.",
    "django_q/failure": "No job has failed.",
    "django_q/ormq": "No job waits",
    "django_q/schedule": "Nothing is scheduled yet",
    "tasks_app/idempotencykey": "no request came with an Idempotency-Key lately",
    "tasks_app/taskevent": "rows come with the first task",
    "tasks_app/usage": "No task has ended yet",
    "clients_app/client": "create_client",
    "clients_app/pairing": "POST /v1/pairing",
    "models_app/languagemodel": "There is no model yet.",
    "models_app/modelpull": "downloads one from the Hugging Face hub",
    "lmsp_site/auditentry": "Nothing has been done by hand yet.",
}


@pytest.fixture
def observer(database: object) -> Browser:
    user = person("watching")
    user.groups.set(Group.objects.filter(name=roles.OBSERVER))
    return browser(user)


def shown(page: Any) -> str:
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", text(page))))


def ended(name: str, **fields: Any) -> Any:
    """Write a job as the runner does when one has ended."""
    now = timezone.now()
    fields = {
        "func": "tasks_app.worker.run_claimable",
        "started": now - timedelta(seconds=90),
        "stopped": now,
        **fields,
    }
    success = name == "success"
    return apps.get_model("django_q", name).objects.create(id=uuid.uuid4().hex, name="a-job", success=success, **fields)


@pytest.mark.parametrize("table", EMPTY)
def test_a_list_without_rows_says_why_and_what_makes_some(observer: Browser, table: str) -> None:
    assert EMPTY[table] in shown(observer.get(f"/admin/{table}/"))


def test_a_search_that_finds_nothing_says_what_it_takes(observer: Browser) -> None:
    page = shown(observer.get("/admin/tasks_app/taskevent/?q=task_none"))
    assert "There is none for “task_none”. The search takes: The id of a task." in page


def test_a_task_leads_to_the_job_that_ran_it_and_back(observer: Browser, client: Client) -> None:
    job, other = ended("success"), new_task(client)
    task = put(new_task(client), Status.COMPLETED)
    Task.objects.filter(pk=task.pk).update(job_id=job.pk)
    page = f"/admin/django_q/success/{job.pk}/change/"
    assert f'href="{page}"' in text(observer.get(f"{TASKS}{task.pk}/change/"))
    listed = shown(observer.get("/admin/django_q/success/"))
    assert "run queued tasks" in listed
    assert "1.5 min" in listed
    (back,) = re.findall(r'href="([^"]*)">Tasks it ran', text(observer.get(page)))
    found = text(observer.get(back))
    assert f'data-row="{task.pk}"' in found
    assert other.pk not in found
    # The runner keeps the newest alone.
    job_id = job.pk
    job.delete()
    assert f"{job_id} (of earlier than the runner keeps" in shown(observer.get(f"{TASKS}{task.pk}/change/"))


def test_a_job_that_failed_shows_its_traceback(observer: Browser) -> None:
    job = ended("failure", result="no such thing : Traceback\n  <b>line 2</b>")
    listed = observer.get("/admin/django_q/failure/")
    assert "no such thing : Traceback" in shown(listed)
    assert "line 2" not in text(listed)
    assert "&lt;b&gt;line 2" in text(observer.get(f"/admin/django_q/failure/{job.pk}/change/"))


def test_what_waits_is_told_by_what_it_is_for(observer: Browser) -> None:
    with transaction.atomic():
        queue.ring()
    assert "run queued tasks" in shown(observer.get("/admin/django_q/ormq/"))


@pytest.mark.parametrize("table", ["taskevent", "response", "taskinput", "snapshot", "journalentry", "idempotencykey"])
def test_rows_are_found_by_their_task_and_lead_to_it(observer: Browser, client: Client, table: str) -> None:
    mine, other = (put(new_task(client), Status.COMPLETED) for _ in range(2))
    for task in (mine, other):
        IdempotencyKey.objects.create(
            client=client, endpoint="POST /v1/tasks", key=f"key of {task.pk}", request_digest="", task=task,
            expires_at=timezone.now() + timedelta(hours=2),
        )  # fmt: skip
        apps.get_model("tasks_app", "taskinput").objects.get_or_create(task=task, defaults={"items": "[]"})
    page = text(observer.get(f"/admin/tasks_app/{table}/?q={mine.pk}"))
    assert f'href="{TASKS}{mine.pk}/change/"' in page
    assert other.pk not in page
    (row, *_) = re.findall(rf'href="(/admin/tasks_app/{table}/[^"/]+/change/)', page)
    assert mine.pk in text(observer.get(row))


def test_nobody_edits_or_deletes_a_job(database: object) -> None:
    job = ended("success")
    opened = browser(User.objects.create_superuser("ada"))
    for deed in ("change", "delete"):
        assert opened.post(f"/admin/django_q/success/{job.pk}/{deed}/", {"post": "yes"}).status_code == 403
    opened.post("/admin/django_q/success/", {"action": "delete_selected", "_selected_action": job.pk, "post": "yes"})
    assert apps.get_model("django_q", "success").objects.count() == 1
