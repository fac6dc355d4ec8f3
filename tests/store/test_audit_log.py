"""The audit log: every deed leaves its entry, in the transaction of the deed, and no entry is ever changed."""

import io
import os
import pwd
import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import DatabaseError, IntegrityError, connection, transaction

from clients_app.models import Client
from clients_app.pairing import collecting, deciding
from lmsp_site import audit_log
from lmsp_site.audit_log import Action, Actor, ActorKind, AuditEntry
from lmsp_site.models import ServiceConfig
from tests.store.pairings import asked, browser, person, poll, row, text

pytestmark = pytest.mark.usefixtures("database")
HERE: dict[str, Any] = {"REMOTE_ADDR": "192.0.2.9", "headers": {"X-Forwarded-For": "203.0.113.1"}}


@pytest.fixture
def user(database: object) -> User:
    return User.objects.create_superuser("ada")


def execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def told(entry: AuditEntry) -> tuple[str, ...]:
    return entry.actor_kind, entry.actor, entry.address, entry.action, entry.subject_kind, entry.subject


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE audit_log SET actor = 'nobody'", "cannot be changed"),
        ("UPDATE audit_log SET id = id + 1", "cannot be changed"),
        ("DELETE FROM audit_log", "cannot be deleted"),
        (
            "REPLACE INTO audit_log SELECT id, at, actor_kind, 'nobody', address, action, subject_kind, subject_id,"
            " subject, detail FROM audit_log",
            "cannot be replaced",
        ),
    ],
)
def test_an_entry_stays_as_it_was_written(client: Client, statement: str, message: str) -> None:
    for _ in range(2):
        audit_log.record(Actor.command_line(), Action.CREATED, client)
    before = list(AuditEntry.objects.values())
    with pytest.raises(IntegrityError, match=message), transaction.atomic():
        execute(statement)
    with pytest.raises(DatabaseError), transaction.atomic():
        AuditEntry.objects.latest("id").delete()
    assert list(AuditEntry.objects.values()) == before
    audit_log.record(Actor.command_line(), Action.DELETED, client)
    assert AuditEntry.objects.count() == 3


def test_a_missing_trigger_is_reported(client: Client) -> None:
    assert audit_log.GUARDS.missing() == []
    execute("DROP TRIGGER audit_entries_are_not_deleted")
    assert audit_log.GUARDS.missing() == ["audit_entries_are_not_deleted"]


def test_a_pairing_leaves_who_approved_it_and_who_collected_it(user: User) -> None:
    codes = asked("tasks:read", "tasks:write")
    fields = {"user_code": codes["user_code"], "decision": "approve", "scopes": ["tasks:read"]}
    assert browser(user).post("/pair", fields, **HERE).status_code == 302
    client_id = poll(codes).json()["client_id"]
    paired, approved = AuditEntry.objects.all()
    assert told(approved) == ("admin", "ada", "192.0.2.9", "approved", "pairing", "Editor")
    assert approved.detail == {
        "wished_scopes": ["tasks:read", "tasks:write"],
        "granted_scopes": ["tasks:read"],
        "asked_from": "127.0.0.1",
    }
    assert told(paired) == ("client", client_id, "127.0.0.1", "paired", "client", "Editor")
    assert paired.subject_id == client_id
    assert paired.detail == {"scopes": ["tasks:read"], "pairing": row(codes).id, "approved_by": "ada"}


def test_the_command_line_is_told_by_its_user() -> None:
    codes = asked("tasks:read")
    for name, argument in (("deny_client", codes["user_code"]), ("create_client", "script")):
        call_command(name, argument, "--json", stdout=io.StringIO())
    created, denied = AuditEntry.objects.all()
    somebody = pwd.getpwuid(os.getuid()).pw_name
    assert told(denied) == ("command", somebody, "", "denied", "pairing", "Editor")
    assert told(created) == ("command", somebody, "", "created", "client", "script")
    assert created.subject_id == Client.objects.get().pk


def test_a_deed_that_cannot_be_written_down_is_not_done(client: Client) -> None:
    codes = asked()
    pairing = deciding.find(codes["user_code"])
    execute("CREATE TRIGGER refusal BEFORE INSERT ON audit_log BEGIN SELECT RAISE(ABORT, 'refused'); END")
    with pytest.raises(DatabaseError, match="refused"):
        deciding.approve(pairing, Actor.command_line())
    assert row(codes).status == "pending"
    with pytest.raises(DatabaseError, match="refused"):
        call_command("create_client", "script", stdout=io.StringIO())
    assert list(Client.objects.all()) == [client]
    execute("DROP TRIGGER refusal")
    deciding.approve(pairing, Actor.command_line())
    execute("CREATE TRIGGER refusal BEFORE INSERT ON audit_log BEGIN SELECT RAISE(ABORT, 'refused'); END")
    with pytest.raises(DatabaseError, match="refused"):
        collecting.collect(codes["device_code"], "")
    execute("DROP TRIGGER refusal")
    assert poll(codes).status_code == 200, "the token was not lost"


def test_a_change_of_scopes_has_its_own_name(user: User, client: Client) -> None:
    path = f"/admin/clients_app/client/{client.pk}/change/"
    fields: dict[str, Any] = {"name": "tests", "scopes": ["tasks:read"]}
    assert browser(user).post(path, fields, **HERE).status_code == 302
    assert browser(user).post(path, fields | {"name": "renamed"}).status_code == 302
    renamed, narrowed = AuditEntry.objects.all()
    assert told(narrowed) == ("admin", "ada", "192.0.2.9", "scopes_changed", "client", "tests")
    assert narrowed.detail == {"changes": {"scopes": {"from": client.scopes, "to": ["tasks:read"]}}}
    assert told(renamed) == ("admin", "ada", "127.0.0.1", "changed", "client", "renamed")
    assert renamed.detail == {"changes": {"name": {"from": "tests", "to": "renamed"}}}


def test_what_a_forged_form_says_was_there_before_is_not_believed(user: User, client: Client) -> None:
    path = f"/admin/clients_app/client/{client.pk}/change/"
    fields = {"name": "tests", "scopes": ["tasks:read"], "initial-scopes": ["tasks:read"]}
    assert browser(user).post(path, fields).status_code == 302
    assert AuditEntry.objects.get().action == "scopes_changed"
    assert client.token_hash not in str(AuditEntry.objects.get().detail)


def test_new_tokens_and_revocations_are_written_down_whoever_makes_them(user: User, client: Client) -> None:
    def act(action: str) -> None:
        browser(user).post("/admin/clients_app/client/", {"action": action, "_selected_action": client.pk}, **HERE)

    act("rotate_token")
    call_command("rotate_token", client.pk, overlap=60, stdout=io.StringIO())
    act("revoke")
    call_command("revoke_client", client.pk, stdout=io.StringIO())
    entries = list(AuditEntry.objects.order_by("id"))
    assert [(entry.actor_kind, entry.action, entry.subject_id) for entry in entries] == [
        ("admin", "rotated", client.pk),
        ("command", "rotated", client.pk),
        # The second revocation has changed nothing.
        ("admin", "revoked", client.pk),
    ]
    assert [entry.detail for entry in entries] == [{"overlap_seconds": 3600}, {"overlap_seconds": 60}, {}]


def test_a_change_of_settings_leaves_what_it_was_before(user: User) -> None:
    path = "/admin/lmsp_site/serviceconfig/1/change/"
    config = ServiceConfig.current()
    names = [field.name for field in ServiceConfig._meta.concrete_fields if field.editable and not field.primary_key]
    fields = {name: getattr(config, name) for name in names}
    assert browser(user).post(path, fields | {"retention_days": 7}).status_code == 302
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.subject_kind) == ("changed", "service configuration")
    assert entry.detail == {"changes": {"retention_days": {"from": 30, "to": 7}}}
    assert browser(user).post(path, fields | {"retention_days": 7}).status_code == 302
    assert browser(user).post(path, fields | {"retention_days": 0}).status_code == 200
    assert AuditEntry.objects.count() == 1, "nothing was changed"
    refused = browser(user).post(path, fields | {"retention_days": 7, "preload": "gone"})
    assert "There is no model gone" in text(refused)


def test_the_admin_shows_finds_and_changes_no_entry(user: User, client: Client) -> None:
    audit_log.record(Actor.client(client.pk, "192.0.2.5"), Action.ROTATED, client, reason="a test")
    audit_log.record(Actor(ActorKind.ADMIN, "ada"), Action.CHANGED, ServiceConfig.current())
    opened = browser(user)
    path = "/admin/lmsp_site/auditentry/"
    for query, found in (
        ("", 2),
        ("?q=192.0.2.5", 1),
        (f"?q={client.pk}", 1),
        ("?q=nothing", 0),
        ("?action__exact=rotated", 1),
        ("?actor_kind__exact=admin", 1),
        ("?subject_kind=client", 1),
    ):
        page = text(opened.get(path + query))
        assert len(re.findall(rf'href="{path}\d+/change/', page)) == found, query
    entry = AuditEntry.objects.latest("id")
    before = list(AuditEntry.objects.values())
    assert "ada" in text(opened.get(f"{path}{entry.pk}/change/"))
    for page in ("add", f"{entry.pk}/change", f"{entry.pk}/delete"):
        assert opened.post(f"{path}{page}/", {"actor": "nobody", "post": "yes"}).status_code == 403
    opened.post(path, {"action": "delete_selected", "_selected_action": [entry.pk], "post": "yes"})
    assert list(AuditEntry.objects.values()) == before


def test_who_may_not_see_the_audit_log_does_not(database: object) -> None:
    assert browser(person("somebody", "view_client")).get("/admin/lmsp_site/auditentry/").status_code == 403
