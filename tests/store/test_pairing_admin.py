"""Pairings in the admin: actions, buttons, narrowing."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User

from clients_app.pairing.models import Pairing, Status
from tests.store.pairings import approved, asked, browser, expire, person, poll, refusal, row, text

pytestmark = pytest.mark.usefixtures("database")
LIST = "/admin/clients_app/pairing/"


@pytest.fixture
def user(database: object) -> User:
    return person("person", "view_pairing", "change_pairing")


def address(codes: dict[str, Any], page: str) -> str:
    return f"{LIST}{row(codes).pk}/{page}/"


def test_the_list_tells_what_became_of_each(user: User) -> None:
    waiting, old, done = asked(name="waits"), asked(name="old"), asked(name="done")
    expire(old)
    approved(done)
    page = text(browser(user).get(LIST))
    for codes in (waiting, old, done):
        assert codes["user_code"] in page
    assert re.findall(r'<span class="state (\w+)"', page) == ["approved", "expired", "pending"]
    assert row(waiting).device_code_hash not in page
    for query in ("?q=waits", "?status__exact=pending", "?o=2", "?o=3"):
        assert browser(user).get(LIST + query).status_code == 200


def test_actions_decide_those_that_wait(user: User) -> None:
    first, second, done = asked("tasks:read"), asked("tasks:read"), asked()
    approved(done)
    opened = browser(user)
    selected = [row(first).pk, row(done).pk]
    opened.post(LIST, {"action": "approve", "_selected_action": selected})
    opened.post(LIST, {"action": "deny", "_selected_action": [row(second).pk, row(first).pk]})
    page = text(opened.get(LIST))
    assert "Approved 1 pairing;" in page
    assert "Denied 1 pairing;" in page
    assert poll(first).json()["scope"] == "tasks:read"
    assert refusal(poll(second)) == "access_denied"
    assert poll(done).status_code == 200


def test_the_buttons_approve_some_of_the_scopes(user: User) -> None:
    codes = asked("tasks:read", "tasks:write")
    opened = browser(user)
    page = text(opened.get(address(codes, "change")))
    assert re.findall(r'name="scopes" value="([\w:]+)"[^>]*checked', page) == ["tasks:read", "tasks:write"]
    assert f'action="{address(codes, "decide")}"' in page
    answer = opened.post(address(codes, "decide"), {"decision": "approve", "scopes": ["tasks:write"]})
    assert (answer.status_code, answer["Location"]) == (302, address(codes, "change"))
    page = text(opened.get(address(codes, "change")))
    assert "Editor was approved" in page
    assert 'name="decision"' not in page
    assert poll(codes).json()["scope"] == "tasks:write"


def test_the_buttons_deny(user: User) -> None:
    codes = asked()
    browser(user).post(address(codes, "decide"), {"decision": "deny"})
    assert refusal(poll(codes)) == "access_denied"


@pytest.mark.parametrize("fields", [{}, {"decision": "approve"}, {"decision": "approve", "scopes": ["models:read"]}])
def test_a_decision_that_makes_no_sense_is_told(user: User, fields: dict[str, Any]) -> None:
    codes = asked("tasks:read")
    opened = browser(user)
    opened.post(address(codes, "decide"), fields)
    assert 'class="errornote ' in text(opened.get(address(codes, "change")))
    assert row(codes).status == Status.PENDING


def test_an_expired_one_has_no_buttons_and_cannot_be_approved(user: User) -> None:
    codes = asked()
    expire(codes)
    opened = browser(user)
    assert 'name="decision"' not in text(opened.get(address(codes, "change")))
    opened.post(address(codes, "decide"), {"decision": "approve", "scopes": ["tasks:read"]})
    assert "Nothing waits" in text(opened.get(LIST))
    assert row(codes).status == Status.PENDING


def test_a_person_who_may_only_look_decides_nothing(database: object) -> None:
    codes = asked()
    opened = browser(person("onlooker", "view_pairing"))
    assert "Approve selected" not in text(opened.get(LIST))
    assert 'name="decision"' not in text(opened.get(address(codes, "change")))
    opened.post(LIST, {"action": "approve", "_selected_action": [row(codes).pk]})
    assert opened.post(address(codes, "decide"), {"decision": "approve", "scopes": ["tasks:read"]}).status_code == 403
    assert row(codes).status == Status.PENDING


def test_nothing_is_decided_by_a_link_or_a_form_from_elsewhere(user: User) -> None:
    codes = asked()
    assert browser(user).get(address(codes, "decide"), {"decision": "approve"}).status_code == 405
    careful = browser(user, enforce_csrf_checks=True)
    assert careful.post(address(codes, "decide"), {"decision": "deny"}).status_code == 403
    assert browser().post(address(codes, "decide"), {"decision": "deny"})["Location"].startswith("/admin/login/")
    assert browser(user).post(f"{LIST}pairing_none/decide/", {"decision": "deny"}).status_code == 404
    assert row(codes).status == Status.PENDING


def test_nothing_is_added_changed_or_deleted_by_hand(user: User) -> None:
    user.is_superuser = True
    user.save()
    codes = asked()
    forged = {"name": "forged", "status": "approved", "granted_scopes": '["tasks:read"]', "_save": "Save"}
    for path in (f"{LIST}add/", address(codes, "change"), address(codes, "delete")):
        assert browser(user).post(path, forged | {"post": "yes"}).status_code == 403
    assert (Pairing.objects.get().name, Pairing.objects.get().status) == ("Editor", Status.PENDING)
