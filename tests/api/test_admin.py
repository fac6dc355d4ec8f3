"""The admin: everything can be read, and nothing there can break a log."""

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from clients_app import limits
from tests.api.bodies import STORY
from tests.service import REPOSITORY, Service, eventually

TABLES = {
    "lmsp_site/serviceconfig": 1,
    "lmsp_site/auditentry": 2,
    "clients_app/client": 1,
    "clients_app/pairing": 0,
    "models_app/languagemodel": 1,
    "models_app/modelpull": 0,
    "tasks_app/task": 2,
    "tasks_app/taskevent": 2,
    "tasks_app/response": 2,
    "tasks_app/idempotencykey": 1,
    "tasks_app/snapshot": 2,
    "tasks_app/journalentry": 1,
    "tasks_app/usage": 1,
    "auth/user": 1,
}


@pytest.fixture(scope="module")
def done(service: Service) -> dict[str, Any]:
    service.request(
        "POST", "/v1/tasks", json={"model": "smollm2-135m-instruct", "input": "Hi", "max_output_tokens": 2},
        headers={"Idempotency-Key": "admin"},
    )  # fmt: skip
    return service.finished(service.create("Hi", max_output_tokens=3)["id"])


@pytest.fixture(scope="module")
def admin(service: Service, done: dict[str, Any]) -> Iterator[httpx.Client]:
    """A person who has logged in as the user that quickstart made."""
    password = service.manage("quickstart")["password"]
    assert service.manage("quickstart")["password"] is None
    with httpx.Client(base_url=service.url, timeout=60, verify=False, follow_redirects=True) as browser:
        assert "/admin/login/" in str(browser.get("/admin/").url)
        refused = submit(browser, "/admin/login/", username="admin", password="wrong")
        assert "/admin/login/" in str(refused.url)
        page = submit(browser, "/admin/login/?next=/admin/", username="admin", password=password)
        assert page.url.path == "/admin/"
        yield browser


def submit(browser: httpx.Client, path: str, **fields: str) -> httpx.Response:
    """Send a form with the CSRF token of the page that has it."""
    browser.get(path if "login" in path else "/admin/")
    fields["csrfmiddlewaretoken"] = browser.cookies["csrftoken"]
    return browser.post(path, data=fields, headers={"Referer": str(browser.base_url)})


def test_the_index_names_every_table(admin: httpx.Client) -> None:
    index = admin.get("/admin/").text
    named = set(re.findall(r'href="/admin/(\w+/\w+)/"', index))
    assert named >= TABLES.keys()
    for table in named:
        assert admin.get(f"/admin/{table}/").status_code == 200, table


@pytest.mark.parametrize("table", TABLES)
def test_every_table_is_listed_and_its_rows_are_shown(admin: httpx.Client, table: str) -> None:
    listed = admin.get(f"/admin/{table}/")
    assert listed.status_code == 200
    rows = re.findall(rf'href="(/admin/{table}/[^"/]+/change/)', listed.text)
    assert len(rows) >= TABLES[table]
    for row in rows[:1]:
        assert admin.get(row).status_code == 200
    for option in ("?q=x", "?o=1", "?p=0", "?all="):
        assert admin.get(f"/admin/{table}/{option}").status_code == 200


def test_its_style_sheets_are_there(admin: httpx.Client) -> None:
    page = admin.get("/admin/").text
    sheets = re.findall(r'href="(/static/[^"]+\.css)"', page)
    assert sheets
    for sheet in sheets:
        assert admin.get(sheet).headers["content-type"].startswith("text/css")


def test_a_forged_form_changes_no_task(service: Service, admin: httpx.Client, done: dict[str, Any]) -> None:
    path = f"/admin/tasks_app/task/{done['id']}/change/"
    before = service.sql("SELECT * FROM tasks WHERE id = ?", done["id"])
    answer = submit(admin, path, status="queued", attempt="0", last_sequence_number="0", _save="Save")
    assert answer.status_code == 403
    assert submit(admin, "/admin/tasks_app/task/add/", id="task_forged", status="completed").status_code == 403
    assert service.sql("SELECT * FROM tasks WHERE id = ?", done["id"]) == before
    assert service.sql("SELECT count(*) FROM tasks WHERE id = 'task_forged'") == [(0,)]


def test_a_forged_form_deletes_nothing(service: Service, admin: httpx.Client, done: dict[str, Any]) -> None:
    events = "SELECT id, data FROM task_events WHERE task_id = ?"
    before = service.sql(events, done["id"])
    event_id = before[0][0]
    for path in (
        f"/admin/tasks_app/task/{done['id']}/delete/",
        f"/admin/tasks_app/taskevent/{event_id}/delete/",
        f"/admin/tasks_app/response/{done['response_id']}/delete/",
        f"/admin/tasks_app/snapshot/{done['id']}/delete/",
        f"/admin/tasks_app/taskevent/{event_id}/change/",
    ):
        assert submit(admin, path, post="yes", data="{}", type="response.failed").status_code == 403
    selected = {"action": "delete_selected", "_selected_action": str(event_id), "post": "yes"}
    submit(admin, "/admin/tasks_app/taskevent/", **selected)
    assert service.sql(events, done["id"]) == before
    assert service.task(done["id"])["status"] == "completed"


def test_a_person_can_cancel_a_task(service: Service, admin: httpx.Client, done: dict[str, Any]) -> None:
    task_id = service.create(STORY, max_output_tokens=1000)["id"]
    eventually(lambda: service.task(task_id)["status"] == "running", 60)
    for selected in (task_id, done["id"]):
        page = submit(admin, "/admin/tasks_app/task/", action="cancel", _selected_action=selected)
        assert page.status_code == 200
    assert service.finished(task_id)["status"] == "cancelled"
    assert service.task(done["id"]) == done


def run_python(service: Service, code: str) -> None:
    command = [sys.executable, "manage.py", "shell", "--verbosity", "0", "--command", code]
    subprocess.run(command, cwd=REPOSITORY, env=service.environment, check=True, timeout=60)


def test_a_person_who_may_only_look_cancels_nothing(service: Service) -> None:
    run_python(
        service,
        "from django.contrib.auth.models import Permission, User\n"
        "user = User.objects.create_user('onlooker', password='only looking 17', is_staff=True)\n"
        "user.user_permissions.add(Permission.objects.get(codename='view_task', content_type__app_label='tasks_app'))",
    )
    task_id = service.create(STORY, max_output_tokens=1000)["id"]
    with httpx.Client(base_url=service.url, timeout=60, verify=False, follow_redirects=True) as browser:
        submit(browser, "/admin/login/", username="onlooker", password="only looking 17")
        listed = browser.get("/admin/tasks_app/task/")
        assert task_id in listed.text
        assert "Cancel selected tasks" not in listed.text
        submit(browser, "/admin/tasks_app/task/", action="cancel", _selected_action=task_id)
        assert browser.get("/admin/tasks_app/taskevent/").status_code == 403
    assert service.task(task_id)["status"] in ("queued", "running")
    service.request("POST", f"/v1/tasks/{task_id}/cancel")


def test_the_token_hash_is_not_shown(service: Service, admin: httpx.Client) -> None:
    (hashed,) = service.sql("SELECT token_hash FROM clients WHERE id = ?", service.client_id)[0]
    page = admin.get(f"/admin/clients_app/client/{service.client_id}/change/")
    assert page.status_code == 200
    assert hashed not in page.text


def test_an_edit_of_the_configuration_is_in_force_at_once(service: Service, admin: httpx.Client) -> None:
    fields = {
        "name": "Renamed",
        "default_on_restart": "retry",
        "max_attempts": "5",
        "retention_days": "30",
        "idempotency_hours": "24",
        **dict.fromkeys(limits.NAMES, "0"),
        "keep_alive": "3600",
        "max_loaded": "0",
        "engine_memory_mb": "0",
    }
    path = "/admin/lmsp_site/serviceconfig/1/change/"
    try:
        assert submit(admin, path, **fields).status_code == 200
        assert httpx.get(f"{service.url}/.well-known/lmsp").json()["name"] == "Renamed"
        assert service.create("Hi", max_output_tokens=1)["on_restart"] == "retry"
        refused = submit(admin, path, **fields | {"retention_days": "0"})
        assert "greater than or equal to 1" in refused.text
    finally:
        submit(admin, path, **fields | {"name": "LMSP service", "default_on_restart": "resume"})
    assert httpx.get(f"{service.url}/.well-known/lmsp").json()["name"] == "LMSP service"


def test_a_client_token_opens_no_admin(service: Service) -> None:
    answer = service.request("GET", "/admin/tasks_app/task/", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"].split("?")[0]) == (302, "/admin/login/")


def test_a_person_runs_a_task_again_and_it_is_written_down(
    service: Service, admin: httpx.Client, done: dict[str, Any]
) -> None:
    page = submit(admin, f"/admin/tasks_app/task/{done['id']}/rerun/")
    new = page.url.path.split("/")[4]
    assert new != done["id"]
    again = service.finished(new)
    assert (again["model"], again["usage"]) == (done["model"], done["usage"])
    assert service.text_on_disk(new) == service.text_on_disk(done["id"])
    written = "SELECT action, detail FROM audit_log WHERE subject_id = ?"
    assert service.sql(written, done["id"])[-1] == ("rerun", f'{{"new_task": "{new}"}}')
