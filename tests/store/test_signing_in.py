"""People in the audit log: who signed in, failed to, signed out, was made, or was given another password."""

import io
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.db import DatabaseError, connection
from django.test import Client as Browser
from django.test import override_settings

from lmsp_site.audit_log import AuditEntry
from lmsp_site.login_throttle import MOST_AS_ONE_USER
from tests.store.pairings import browser

PASSWORD = "the right one 17"
OTHER = "quite another one 23"
USERS = "/admin/auth/user/"

pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture(autouse=True)
def fast_hashes() -> Iterator[None]:
    """Hashes that take as long as they should would make a minute of these tests."""
    with override_settings(PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"]):
        yield


@pytest.fixture
def ada(database: object) -> User:
    return User.objects.create_superuser("ada", password=PASSWORD)


def sign_in(opened: Browser, username: str, password: str) -> Any:
    fields = {"username": username, "password": password}
    return opened.post("/admin/login/?next=/admin/", fields, REMOTE_ADDR="192.0.2.9")


def told() -> list[tuple[str, ...]]:
    """Return who did what to whom and from where, the oldest first."""
    names = ("actor_kind", "actor", "address", "action", "subject_kind", "subject")
    return list(AuditEntry.objects.order_by("id").values_list(*names))


def actions() -> list[tuple[str, str, str]]:
    return list(AuditEntry.objects.order_by("id").values_list("actor", "action", "subject"))


def test_who_signs_in_and_out_is_written_down(ada: User) -> None:
    opened = browser()
    assert sign_in(opened, "ada", PASSWORD).status_code == 302
    assert opened.post("/admin/logout/", REMOTE_ADDR="192.0.2.9").status_code == 200
    # Who has signed out cannot do so again.
    opened.post("/admin/logout/")
    assert told() == [
        ("admin", "ada", "192.0.2.9", "signed_in", "user", "ada"),
        ("admin", "ada", "192.0.2.9", "signed_out", "user", "ada"),
    ]


@pytest.mark.parametrize(
    ("change", "reason"),
    [({}, "wrong_password"), ({"is_active": False}, "not_active"), ({"is_staff": False}, "no_staff")],
    ids=["password", "inactive", "no-staff"],
)
def test_who_is_not_let_in_is_written_down_with_the_reason(ada: User, change: dict[str, bool], reason: str) -> None:
    User.objects.update(**change)
    sign_in(browser(), "ada", PASSWORD if change else "wrong")
    # Nobody has shown to be her.
    assert told() == [("admin", "", "192.0.2.9", "sign_in_failed", "user", "ada")]
    assert AuditEntry.objects.get().detail == {"reason": reason}


def test_who_is_signed_in_already_can_fail_too(ada: User) -> None:
    opened = browser(ada)
    sign_in(opened, "ada", "wrong")
    assert actions() == [("", "sign_in_failed", "ada")]


def test_what_is_typed_in_the_place_of_a_name_is_not_kept(ada: User) -> None:
    sign_in(browser(), "typed by mistake 23", "hidden 23")
    assert told() == [("admin", "", "192.0.2.9", "sign_in_failed", "user", "")]
    entry = AuditEntry.objects.values().get()
    assert entry["detail"] == {"reason": "unknown_user"}
    assert "23" not in str({name: value for name, value in entry.items() if name != "at"})


def test_who_is_not_even_asked_for_a_password_fills_nothing(ada: User) -> None:
    for _ in range(MOST_AS_ONE_USER + 3):
        sign_in(browser(), "ada", "wrong")
    assert AuditEntry.objects.count() == MOST_AS_ONE_USER


def test_who_cannot_be_written_down_is_not_let_in_and_gets_out(ada: User) -> None:
    opened = browser()
    sign_in(opened, "ada", PASSWORD)
    with connection.cursor() as cursor:
        cursor.execute("CREATE TRIGGER refusal BEFORE INSERT ON audit_log BEGIN SELECT RAISE(ABORT, 'refused'); END")
    another = browser(raise_request_exception=False)
    assert sign_in(another, "ada", PASSWORD).status_code == 500
    assert another.get("/admin/").status_code == 302
    form = {"old_password": PASSWORD, "new_password1": OTHER, "new_password2": OTHER}
    with pytest.raises(DatabaseError, match="refused"):
        opened.post("/admin/password_change/", form)
    ada.refresh_from_db()
    assert ada.check_password(PASSWORD)
    assert opened.get("/admin/").status_code == 200
    assert opened.post("/admin/logout/").status_code == 200
    assert opened.get("/admin/").status_code == 302


def test_passwords_that_are_set_are_written_down_and_never_shown(ada: User) -> None:
    bob = User.objects.create_user("bob", password=PASSWORD, is_staff=True)
    opened = browser(ada)
    own = {"old_password": "wrong", "new_password1": OTHER, "new_password2": OTHER}
    assert opened.post("/admin/password_change/", own).status_code == 200
    assert actions() == []
    assert opened.post("/admin/password_change/", own | {"old_password": PASSWORD}).status_code == 302
    form = {"password1": OTHER, "password2": OTHER, "usable_password": "true"}
    assert opened.get(f"{USERS}{bob.pk}/password/").status_code == 200
    assert opened.post(f"{USERS}{bob.pk}/password/", form).status_code == 302
    assert actions() == [("ada", "password_set", "ada"), ("ada", "password_set", "bob")]
    for user in (ada, bob):
        user.refresh_from_db()
        assert user.check_password(OTHER)
        assert user.password not in str(list(AuditEntry.objects.values()))
    assert OTHER not in str(list(AuditEntry.objects.values()))


def test_people_and_roles_that_are_made_changed_and_deleted_are_written_down(ada: User) -> None:
    opened = browser(ada)
    new = {"username": "eve", "password1": OTHER, "password2": OTHER, "usable_password": "true"}
    assert opened.post(f"{USERS}add/", new).status_code == 302
    eve = User.objects.get(username="eve")
    observer = Group.objects.get(name="observer")
    edited = {"username": "eve", "is_active": "on", "is_staff": "on", "groups": observer.pk}
    edited |= {"date_joined_0": "2026-01-01", "date_joined_1": "00:00:00"}
    assert opened.post(f"{USERS}{eve.pk}/change/", edited).status_code == 302
    role = {"name": "readers", "permissions": observer.permissions.first().pk}  # type: ignore[union-attr]
    assert opened.post("/admin/auth/group/add/", role).status_code == 302
    assert opened.post(f"{USERS}{eve.pk}/delete/", {"post": "yes"}).status_code == 302
    by_subject = [(action, subject) for _, action, subject in actions()]
    assert by_subject == [
        ("created", "eve"),
        *(("changed", "eve"),) * 2,
        ("created", "readers"),
        ("changed", "readers"),
        ("deleted", "eve"),
    ]
    edit, roles = (
        entry.detail["changes"] for entry in AuditEntry.objects.filter(subject="eve", action="changed")[::-1]
    )
    assert edit["is_staff"] == {"from": False, "to": True}
    assert roles["groups"] == {"added": ["observer"], "removed": []}
    details = str(list(AuditEntry.objects.values_list("detail", flat=True)))
    assert OTHER not in details
    assert "md5$" not in details


def test_the_command_line_is_written_down_too(ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
    # Where Django's command reads what somebody types.
    monkeypatch.setattr("getpass.getpass", lambda prompt: OTHER)
    call_command("changepassword", "ada", stdout=io.StringIO())
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", OTHER)
    call_command("createsuperuser", username="root", email="", interactive=False, stdout=io.StringIO())
    assert [entry[1:] for entry in actions()] == [("password_set", "ada"), ("created", "root")]
    assert set(AuditEntry.objects.values_list("actor_kind", flat=True)) == {"command"}
    ada.refresh_from_db()
    assert ada.check_password(OTHER)
