"""Clients in the admin: scopes and dates are edited, tokens are shown once, and what is gone is gone."""

import html
import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client as Browser
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from clients_app import managing
from clients_app.models import Client
from lmsp_site.audit_log import Actor, ActorKind, AuditEntry
from tasks_app import trying
from tasks_app.models import Usage
from tests.store.admitting import admitted
from tests.store.tasks import finish, new_task, running

LIST = "/admin/clients_app/client/"


@pytest.fixture
def admin(database: Path) -> Browser:
    """A person who may do everything."""
    browser = Browser(SERVER_NAME="127.0.0.1")
    browser.force_login(User.objects.create_superuser("admin", password=None))
    return browser


def act(browser: Browser, action: str, *clients: Client) -> Any:
    return browser.post(LIST, {"action": action, "_selected_action": [client.pk for client in clients]})


def messages(browser: Browser) -> str:
    return html.unescape(browser.get(LIST).content.decode())


def edit(browser: Browser, client: Client, **fields: Any) -> Any:
    form = {"name": client.name, "scopes": client.scopes, "expires_at_0": "", "expires_at_1": "", **fields}
    return browser.post(f"{LIST}{client.pk}/change/", form)


def test_a_new_token_is_shown_once_and_kept_nowhere(admin: Browser, database: Path) -> None:
    client, old = Client.pair("x", [])
    page = act(admin, "rotate_token", client)
    (token,) = re.findall(r"<pre>(lmsp_\S+)</pre>", page.content.decode())
    assert "no-store" in page.headers["Cache-Control"]
    assert admitted(token)
    assert admitted(old)
    client.refresh_from_db()
    assert client.previous_token_until is not None
    assert timedelta(minutes=59) < client.previous_token_until - timezone.now() <= timedelta(hours=1)
    # Neither in a message, which would be in a cookie, nor in a session, nor in the list of what was done.
    assert token not in str(page.cookies) + str(admin.cookies) + messages(admin)
    assert not any(token in json.dumps(session.get_decoded()) for session in Session.objects.all())
    for file in database.parent.glob(f"{database.name}*"):
        assert token.encode() not in file.read_bytes()


def test_two_clients_get_no_token_on_one_page(admin: Browser, database: Path) -> None:
    clients = [Client.pair(name, [])[0] for name in ("x", "y")]
    hashes = {client.token_hash for client in clients}
    assert act(admin, "rotate_token", *clients).status_code == 302
    assert "Select one client" in messages(admin)
    assert set(Client.objects.values_list("token_hash", flat=True)) == hashes


def test_a_revoked_client_gets_no_token(admin: Browser, database: Path) -> None:
    client, token = Client.pair("x", [])
    act(admin, "revoke", client)
    assert "Revoked x." in messages(admin)
    assert not admitted(token)
    act(admin, "rotate_token", client)
    assert "pair the program again" in messages(admin)
    act(admin, "revoke", client)
    assert "Nothing has changed: revoked before." in messages(admin)


def test_scopes_are_chosen_from_those_that_there_are(admin: Browser, database: Path) -> None:
    client, _ = Client.pair("x", ["tasks:read", "tasks:write"])
    assert edit(admin, client, scopes=["tasks:read"]).status_code == 302
    assert Client.objects.get().scopes == ["tasks:read"]
    refused = edit(admin, client, scopes=["tasks:read", "everything"])
    assert "everything is not one of the available choices" in refused.content.decode()
    assert edit(admin, client, scopes=[]).status_code == 302
    assert Client.objects.get().scopes == []


def test_expiry_is_edited(admin: Browser, database: Path) -> None:
    client, token = Client.pair("x", [])
    edit(admin, client, expires_at_0="2020-01-01", expires_at_1="00:00:00")
    assert not admitted(token)
    edit(admin, client)
    assert admitted(token)


def test_a_forged_form_changes_nothing_else(admin: Browser, database: Path) -> None:
    client, _ = Client.pair("x", [])
    client.revoke()
    stored = Client.objects.values().get()
    edit(admin, client, token_hash="0" * 64, revoked_at_0="", revoked_at_1="", id="other", last_used_at="2020-01-01")
    assert Client.objects.values().get() == stored


def test_a_client_with_tasks_is_not_deleted_and_one_without_is(admin: Browser, client: Client) -> None:
    new_task(client)
    others = [Client.pair(name, [])[0] for name in ("x", "y", "z")]
    assert admin.post(f"{LIST}{client.pk}/remove/").status_code == 302
    reason = f"{client.name} ({client.pk}) still has tasks, and stays as long as these are kept"
    assert reason in messages(admin)
    assert admin.post(f"{LIST}{others[0].pk}/remove/")["Location"] == LIST
    # Many at once go by the same rule.
    act(admin, "remove", client, *others[1:])
    said = messages(admin)
    assert reason in said
    assert "Deleted 2 clients." in said
    # Nor by the forms of Django's.
    assert admin.post(f"{LIST}{client.pk}/delete/", {"post": "yes"}).status_code == 403
    act(admin, "delete_selected", client)
    assert list(Client.objects.all()) == [client]
    entries = AuditEntry.objects.filter(action="deleted")
    assert {entry.subject_id for entry in entries} == {other.pk for other in others}


def test_trials_are_allowed_again_by_a_button(admin: Browser, database: Path) -> None:
    actor = Actor(ActorKind.ADMIN, "admin")
    console, old = Client.pair("admin console", [])
    Client.objects.filter(pk=console.pk).update(id=trying.CLIENT_ID)
    console = Client.objects.get()
    page = f"{LIST}{trying.CLIENT_ID}/change/"
    assert "Allow trials again" not in shown(admin.get(page))
    # Its token is nobody's.
    assert admin.post(f"{LIST}{trying.CLIENT_ID}/rotate/").status_code == 302
    assert "nobody is to have its token" in messages(admin)
    managing.revoke(console, actor)
    assert "Allow trials again" in shown(admin.get(page))
    onlooker = User.objects.create_user("onlooker", is_staff=True)
    onlooker.user_permissions.add(Permission.objects.get(codename="view_client"))
    watching = Browser(SERVER_NAME="127.0.0.1")
    watching.force_login(onlooker)
    assert "Allow trials again" not in shown(watching.get(page))
    assert watching.post(f"{LIST}allow-trials/").status_code == 403
    assert Client.objects.get().state == "revoked"
    assert admin.post(f"{LIST}allow-trials/")["Location"] == page
    assert Client.objects.get().state == "active"
    assert not admitted(old), "it has another token, which nobody has seen"
    # Another program's client stays revoked.
    other, _ = Client.pair("x", [])
    managing.revoke(other, actor)
    admin.post(f"{LIST}allow-trials/")
    other.refresh_from_db()
    assert other.state == "revoked"
    assert [entry.action for entry in AuditEntry.objects.order_by("id")] == ["revoked", "reinstated", "revoked"]


def test_a_person_who_may_only_look_changes_nothing(database: Path) -> None:
    client, token = Client.pair("x", [])
    onlooker = User.objects.create_user("onlooker", is_staff=True)
    onlooker.user_permissions.add(Permission.objects.get(codename="view_client"))
    browser = Browser(SERVER_NAME="127.0.0.1")
    browser.force_login(onlooker)
    assert browser.get(LIST).status_code == 200
    stored = Client.objects.values().get()
    for action in ("rotate_token", "revoke"):
        act(browser, action, client)
    for button in ("rotate", "revoke"):
        assert browser.post(f"{LIST}{client.pk}/{button}/").status_code == 403
    assert edit(browser, client, name="y").status_code == 403
    assert Client.objects.values().get() == stored
    assert admitted(token)


def test_the_page_of_a_client_tells_what_it_has_and_had(admin: Browser, client: Client) -> None:
    Client.objects.filter(pk=client.pk).update(max_queued=4, scopes=["tasks:read"])
    new_task(client)
    _, progress = running(client)
    finish(progress, "Done.")
    had = Usage.objects.get(client_id=client.pk)
    page = shown(admin.get(f"{LIST}{client.pk}/change/"))
    assert "Queued tasks 1 of 4 its own" in page
    assert "Running tasks 0, no limit" in page
    assert f"1 task, {had.input_tokens} tokens in, {had.output_tokens} out" in page
    assert "tasks:read granted one's own tasks" in page
    assert "tasks:write not granted" in page
    listed = shown(admin.get(LIST))
    assert f" {had.input_tokens + had.output_tokens} " in listed.split(client.name, 1)[1]


def test_the_buttons_of_a_page_do_what_the_actions_do(admin: Browser, database: Path) -> None:
    client, old = Client.pair("x", [])
    page = admin.post(f"{LIST}{client.pk}/rotate/", {"overlap": "0"})
    (token,) = re.findall(r"<pre>(lmsp_\S+)</pre>", page.content.decode())
    assert admitted(token)
    assert not admitted(old)
    # What is not offered is the hour of the action.
    admin.post(f"{LIST}{client.pk}/rotate/", {"overlap": "99999999"})
    client.refresh_from_db()
    assert client.previous_token_until is not None
    assert client.previous_token_until - timezone.now() <= timedelta(hours=1)
    assert admin.post(f"{LIST}{client.pk}/revoke/").status_code == 302
    assert Client.objects.get().state == "revoked"
    assert admin.post(f"{LIST}{client.pk}/rotate/").status_code == 302
    assert "pair the program again" in messages(admin)
    assert admin.post(f"{LIST}client_none/revoke/").status_code == 404
    actions = list(AuditEntry.objects.order_by("id").values_list("action", flat=True))
    assert actions == ["rotated", "rotated", "revoked"]


def test_the_list_is_made_by_few_queries_however_long(admin: Browser, database: Path) -> None:
    counts = []
    for number in (1, 12):
        for name in range(number):
            Client.pair(f"{number} {name}", [])
        with CaptureQueriesContext(connection) as captured:
            admin.get(LIST)
        counts.append(len(captured))
    assert counts[0] == counts[1] <= 12


def shown(page: Any) -> str:
    """Return a page's text."""
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", page.content.decode())))
