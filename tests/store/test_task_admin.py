"""Tasks in the admin: what may be done to them, by whom, and what of it is written down."""

import json
import re
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.contrib.messages import get_messages
from django.db import connection
from django.test import Client as Browser
from django.test.utils import CaptureQueriesContext

from clients_app.models import Client
from lmsp_site import roles
from lmsp_site.audit_log import AuditEntry
from tasks_app import managing
from tasks_app.admin import task_page
from tasks_app.models import Priority, Task, TaskEvent
from tasks_app.states import Status
from tests.store.pairings import browser, person, text
from tests.store.tasks import new_task, put, running

LIST = "/admin/tasks_app/task/"


@pytest.fixture
def operator(client: Client) -> Browser:
    return signed_in(roles.OPERATOR)


def signed_in(*names: str) -> Browser:
    user = person("somebody")
    user.groups.set(Group.objects.filter(name__in=names))
    return browser(user)


def act(opened: Browser, action: str, *tasks: Task, **fields: Any) -> str:
    """Do something to selected tasks, and return what is said about it."""
    answer = opened.post(LIST, {"action": action, "_selected_action": [task.pk for task in tasks], **fields})
    assert answer.status_code == 302
    return " ".join(str(message) for message in get_messages(answer.wsgi_request))


def page_of(task: Task, name: str = "change") -> str:
    return f"{LIST}{task.pk}/{name}/"


def entries() -> list[tuple[str, str, dict[str, Any]]]:
    return list(AuditEntry.objects.order_by("id").values_list("action", "subject_id", "detail"))


def status(task: Task) -> str:
    return Task.objects.get(pk=task.pk).status


def test_cancelling_says_what_became_of_each_and_is_written_down(operator: Browser, client: Client) -> None:
    waiting, done = new_task(client), put(new_task(client), Status.COMPLETED)
    said = act(operator, "cancel", waiting, done)
    assert "Cancelled: 1 task." in said
    assert f"{done.pk} has finished: it is completed, and stays so." in said
    assert (status(waiting), status(done)) == ("cancelled", "completed")
    assert entries() == [("cancelled", waiting.pk, {"was": "queued"})]


def test_the_button_does_the_same(operator: Browser, client: Client) -> None:
    task, _ = running(client)
    assert "data-unfinished" in text(operator.get(page_of(task)))
    assert operator.post(page_of(task, "cancel"))["Location"] == page_of(task)
    assert status(task) == "cancelling"
    assert [entry[:2] for entry in entries()] == [("cancelled", task.pk)]


def test_deleting_many_obeys_the_rules_of_deleting_one(operator: Browser, client: Client) -> None:
    waiting, done, also_done = new_task(client), *(put(new_task(client), Status.COMPLETED) for _ in range(2))
    said = act(operator, "remove", waiting, done)
    assert "Deleted: 1 task." in said
    assert f"{waiting.pk} has not finished: cancel it first." in said
    assert not Task.objects.filter(pk=done.pk).exists()
    assert not TaskEvent.objects.filter(task=done.pk).exists()
    assert operator.post(page_of(waiting, "remove"))["Location"] == page_of(waiting)
    assert status(waiting) == "queued"
    assert operator.post(page_of(also_done, "remove"))["Location"] == LIST
    assert [entry[:2] for entry in entries()] == [("deleted", done.pk), ("deleted", also_done.pk)]


def test_all_that_a_forged_form_selects_is_what_it_names(operator: Browser, client: Client) -> None:
    named, other = (put(new_task(client), Status.COMPLETED) for _ in range(2))
    act(operator, "remove", named, select_across="1")
    assert not Task.objects.filter(pk=named.pk).exists()
    assert Task.objects.filter(pk=other.pk).exists()


def test_priority_and_policy_change_while_it_waits_and_only_then(operator: Browser, client: Client) -> None:
    waiting, (runs, _) = new_task(client), running(client)
    fields = {"priority": Priority.INTERACTIVE, "on_restart": "fail"}
    operator.post(page_of(waiting, "amend"), fields)
    waiting.refresh_from_db()
    assert (waiting.priority, waiting.on_restart, waiting.status) == (Priority.INTERACTIVE, "fail", "queued")
    changes = {"priority": {"from": "normal", "to": "interactive"}, "on_restart": {"from": "resume", "to": "fail"}}
    assert entries() == [("changed", waiting.pk, {"changes": changes})]
    operator.post(page_of(runs, "amend"), fields)
    runs.refresh_from_db()
    assert (runs.priority, runs.on_restart) == (Priority.NORMAL, "resume")
    operator.post(page_of(waiting, "amend"), {"priority": "9", "on_restart": "never"})
    assert "of those that are listed" in text(operator.get(page_of(waiting)))
    assert len(entries()) == 1


def test_a_task_is_no_form(operator: Browser, client: Client) -> None:
    task = put(new_task(client), Status.COMPLETED)
    before = Task.objects.filter(pk=task.pk).values().get()
    for name in ("change", "delete"):
        assert operator.post(page_of(task, name), {"status": "queued", "post": "yes"}).status_code == 403
    assert operator.get(page_of(task, "cancel")).status_code == 405
    assert Task.objects.filter(pk=task.pk).values().get() == before


def test_an_observer_sees_everything_and_changes_nothing(client: Client) -> None:
    opened = signed_in(roles.OBSERVER)
    waiting, done = new_task(client), put(new_task(client), Status.COMPLETED)
    for path in ("/admin/", LIST, page_of(waiting), page_of(done), page_of(done, "export")):
        page = opened.get(path)
        assert page.status_code == 200, path
        assert not re.findall(r'<button class="button danger|Run again', text(page)), path
    assert "Cancel selected" not in text(opened.get(LIST))
    for name in ("cancel", "rerun", "amend", "remove"):
        assert opened.post(page_of(waiting, name), {"priority": "0"}).status_code == 403
        opened.post(LIST, {"action": name, "_selected_action": [waiting.pk, done.pk]})
    assert (status(waiting), status(done)) == ("queued", "completed")
    assert entries() == []


def test_somebody_without_a_role_sees_no_task(client: Client) -> None:
    opened, task = signed_in(), new_task(client)
    assert 'id="dashboard"' not in text(opened.get("/admin/"))
    assert opened.get(LIST).status_code == 403
    for name in ("change", "export"):
        assert opened.get(page_of(task, name)).status_code == 403


def test_roles_get_back_what_is_listed_and_keep_what_was_added(database: object) -> None:
    operator = Group.objects.get(name=roles.OPERATOR)
    extra = Group.objects.get(name=roles.OBSERVER).permissions.model.objects.get(codename="view_user")
    operator.permissions.set([extra])
    roles.bring_up_to_date()
    held = {f"{each.content_type.app_label}.{each.codename}" for each in operator.permissions.all()}
    assert {"auth.view_user", "tasks_app.view_task", *roles.CHANGES} <= held
    assert not [name for name in held if name.startswith("auth.") and name != "auth.view_user"]


def test_the_page_tells_everything(operator: Browser, client: Client) -> None:
    task = put(new_task(client, metadata={"project": "<atlas>"}), Status.FAILED)
    page = text(operator.get(page_of(task)))
    for said in ("engine_died", "The engine&#x27;s process was killed or crashed", "project=&lt;atlas&gt;", "Snapshot"):
        assert said in page
    assert re.findall(r'<rect class="(\w+)"', page) == ["queued", "running"]
    assert "<style" not in page


def test_a_jump_shows_the_event_first(operator: Browser, client: Client) -> None:
    task = put(new_task(client), Status.COMPLETED)
    last = task.last_sequence_number
    numbers = re.findall(
        r'<tr><td class="right">(\d+)</td><td>response', text(operator.get(page_of(task), {"event": last}))
    )
    assert numbers == [str(last)]
    for nonsense in ("-1", "x", "9" * 30):
        assert "response.created" in text(operator.get(page_of(task), {"event": nonsense}))


def test_the_export_holds_task_log_and_response(operator: Browser, client: Client) -> None:
    task = put(new_task(client), Status.COMPLETED)
    answer = operator.get(page_of(task, "export"))
    assert answer["Content-Disposition"] == f'attachment; filename="{task.pk}.json"'
    told = json.loads(answer.content)
    assert [event["sequence_number"] for event in told["events"]] == list(range(task.last_sequence_number + 1))
    assert told["response"]["status"] == "completed"
    both = operator.post(LIST, {"action": "export", "_selected_action": [task.pk, new_task(client).pk]})
    assert len(json.loads(both.content)) == 2


def test_the_bar_fills_the_line() -> None:
    timeline = [{"type": "response.created", "at": 0.0}, {"type": "response.queued", "at": 0.0, "attempt": 1}]
    timeline += [{"type": "response.in_progress", "at": 30.0, "attempt": 1}, {"type": "response.completed", "at": 90.0}]
    pieces = task_page._bar(timeline, finished=True)
    assert [piece["title"] for piece in pieces] == ["queued, attempt 1: 30 s", "running, attempt 1: 1.0 min"]
    assert sum(float(piece["width"]) for piece in pieces) == pytest.approx(1000, abs=0.1)
    assert 1.9 < float(pieces[1]["width"]) / float(pieces[0]["width"]) < 2.1


def test_what_becomes_of_people_is_in_the_audit_log_and_their_passwords_never(database: object) -> None:
    root = User.objects.create_superuser("root", password="a long password 1")
    other = User.objects.create_user("other", password="a long password 2")
    opened = browser(root)
    opened.post(
        f"/admin/auth/user/{other.pk}/password/", {"password1": "another long 3", "password2": "another long 3"}
    )
    role = Group.objects.get(name=roles.OBSERVER)
    fields = {
        "username": "renamed",
        "is_active": "on",
        "groups": [role.pk],
        "date_joined_0": "2026-01-01",
        "date_joined_1": "00:00:00",
    }
    assert opened.post(f"/admin/auth/user/{other.pk}/change/", fields).status_code == 302
    other.refresh_from_db()
    assert other.username == "renamed"
    written = json.dumps(entries())
    assert "renamed" in written
    assert ("changed", str(other.pk), {"changes": {"groups": {"added": ["observer"], "removed": []}}}) in entries()
    assert "pbkdf2" not in written


@pytest.mark.parametrize("query", ["", "?status=completed", "?status=queued", "?policy=resume", "?q=task_0", "?q=x"])
def test_a_page_takes_as_many_queries_however_many_tasks_there_are(
    operator: Browser, client: Client, query: str
) -> None:
    counted = []
    for count in (2, 12):
        for _ in range(count):
            put(new_task(client), Status.COMPLETED)
        with CaptureQueriesContext(connection) as queries:
            assert operator.get(LIST + query).status_code == 200
        counted.append(len(queries))
    assert counted[0] == counted[1] <= 25, queries.captured_queries
    statements = [each["sql"] for each in queries.captured_queries]
    # What is counted is counted up to a limit, or is not of tasks.
    counting = [sql for sql in statements if re.search(r"count\(.* tasks", sql, re.IGNORECASE)]
    whole = [sql for sql in counting if "LIMIT" not in sql]
    assert whole == []


def test_the_palette_finds_tasks_for_those_who_may_see_them(operator: Browser, client: Client) -> None:
    task = new_task(client, metadata={"project": "atlas"})
    for said in (task.pk, "atlas"):
        assert page_of(task) in text(operator.get("/admin/search/", {"s": said, "extended": "1"}))
    User.objects.get(username="somebody").groups.clear()
    assert page_of(task) not in text(operator.get("/admin/search/", {"s": task.pk, "extended": "1"}))


def test_amending_is_no_event(client: Client) -> None:
    from lmsp_site.audit_log import Actor

    task = new_task(client)
    managing.amend(task, Actor.command_line(), priority=Priority.BATCH)
    assert TaskEvent.objects.filter(task=task).count() == 2
