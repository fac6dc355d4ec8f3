"""The page /pair, as a person with a telephone sees it: forms, no script."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.staticfiles import finders

from clients_app.pairing.guesses import MOST_IN_ALL
from clients_app.pairing.models import GuessCount, Status
from tests.store.pairings import approved, asked, at_once, browser, expire, person, poll, refusal, row, text

pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture
def user(database: object) -> User:
    return person("person", "change_pairing")


def test_it_asks_for_a_login_first_and_keeps_the_code(database: object) -> None:
    codes = asked()
    with_code = codes["verification_uri_complete"].removeprefix("http://localhost")
    answer = browser().get(with_code)
    assert answer.status_code == 302
    assert answer["Location"] == f"/admin/login/?next=/pair%3Fuser_code%3D{codes['user_code']}"
    User.objects.create_superuser("admin", password="a long password")
    opened = browser()
    logged_in = opened.post(answer["Location"], {"username": "admin", "password": "a long password", "next": with_code})
    assert (logged_in.status_code, logged_in["Location"]) == (302, with_code)
    assert f'value="{codes["user_code"]}"' in text(opened.get(with_code))
    assert browser().post("/pair", {"user_code": codes["user_code"], "decision": "approve"}).status_code == 302
    assert row(codes).status == Status.PENDING


@pytest.mark.parametrize(("permissions", "staff", "status"), [((), True, 403), (("change_pairing",), False, 302)])
def test_who_may_not_decide_decides_nothing(permissions: tuple[str, ...], staff: bool, status: int) -> None:
    codes = asked()
    opened = browser(person("somebody", *permissions, staff=staff))
    for answer in (opened.get("/pair"), opened.post("/pair", {"user_code": codes["user_code"], "decision": "approve"})):
        assert answer.status_code == status
        assert "Editor" not in text(answer)
    assert row(codes).status == Status.PENDING


def test_a_link_tries_no_code(user: User) -> None:
    """Whoever makes somebody follow one neither sees what waits nor spends the guesses."""
    codes = asked()
    page = text(browser(user).get("/pair", {"user_code": codes["user_code"]}))
    assert codes["user_code"] in page
    assert "Editor" not in page
    browser(user).get("/pair", {"user_code": "BBBB-BBBB"})
    assert not GuessCount.objects.exists()


def test_a_form_from_elsewhere_is_refused(user: User) -> None:
    codes = asked()
    opened = browser(user, enforce_csrf_checks=True)
    fields = {"user_code": codes["user_code"], "decision": "approve", "scopes": ["tasks:read"]}
    assert opened.post("/pair", fields).status_code == 403
    assert row(codes).status == Status.PENDING
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', text(opened.get("/pair")))
    assert token
    assert opened.post("/pair", fields | {"csrfmiddlewaretoken": token[1]}).status_code == 302
    assert row(codes).status == Status.APPROVED


def test_it_shows_who_wishes_for_what(user: User) -> None:
    codes = asked("tasks:read", "models:read", name="<b>Editor</b>")
    page = text(browser(user).post("/pair", {"user_code": codes["user_code"].lower()}))
    assert "&lt;b&gt;Editor&lt;/b&gt;" in page
    assert "<b>" not in page
    assert codes["user_code"] in page
    assert re.findall(r'name="scopes" value="([\w:]+)"[^>]*checked', page) == ["models:read", "tasks:read"]
    assert "127.0.0.1" in page
    assert row(codes).status == Status.PENDING, "to look is not to decide"


def test_a_person_approves_some_of_the_scopes(user: User) -> None:
    codes = asked("tasks:read", "tasks:write")
    opened = browser(user)
    fields = {"user_code": codes["user_code"], "decision": "approve", "scopes": ["tasks:read"]}
    answer = opened.post("/pair", fields)
    assert (answer.status_code, answer["Location"]) == (302, "/pair")
    assert "Editor was approved" in text(opened.get("/pair"))
    assert poll(codes).json()["scope"] == "tasks:read"
    assert row(codes).decided_by == "person"


def test_a_person_denies(user: User) -> None:
    codes = asked()
    opened = browser(user)
    assert opened.post("/pair", {"user_code": codes["user_code"], "decision": "deny"}).status_code == 302
    assert "Editor was denied" in text(opened.get("/pair"))
    assert refusal(poll(codes)) == "access_denied"


@pytest.mark.parametrize(
    "fields", [{"decision": "approve"}, {"decision": "approve", "scopes": ["tasks:write"]}, {"decision": "perhaps"}]
)
def test_a_decision_that_makes_no_sense_is_asked_for_again(user: User, fields: dict[str, Any]) -> None:
    codes = asked("tasks:read", "models:read")
    answer = browser(user).post("/pair", {"user_code": codes["user_code"], **fields})
    assert answer.status_code == 400
    assert 'role="alert"' in text(answer)
    assert 'name="decision" value="approve"' in text(answer)
    assert row(codes).status == Status.PENDING


def test_wrong_used_and_expired_codes_look_the_same(user: User) -> None:
    used, expired = asked(), asked()
    approved(used)
    expire(expired)
    pages = set()
    for code in ("BBBB-BBBB", used["user_code"], expired["user_code"]):
        answer = browser(user).post("/pair", {"user_code": code})
        assert answer.status_code == 400
        page = re.sub(r'(name="csrfmiddlewaretoken" value)="\w+"', "", text(answer))
        pages.add(page.replace(code, ""))
    assert len(pages) == 1


def test_neither_another_address_nor_another_login_resets_the_guesses(user: User) -> None:
    codes = asked()
    letters = "BCDFGHJKLMNPQRSTVWXZ"
    for number in range(MOST_IN_ALL):
        code = f"{letters[number // 20]}{letters[number % 20]}BBBBBB"
        elsewhere = {"X-Forwarded-For": f"192.0.2.{number}"}
        assert browser(user).post("/pair", {"user_code": code}, headers=elsewhere).status_code == 400
    answer = browser(user, REMOTE_ADDR="192.0.2.77").post("/pair", {"user_code": codes["user_code"]})
    assert answer.status_code == 429
    assert 0 < int(answer["Retry-After"]) <= 600
    assert "Editor" not in text(answer)


def test_of_fifty_approvals_at_once_one_wins(user: User) -> None:
    codes = asked()
    opened = [browser(user) for _ in range(50)]
    fields = {"user_code": codes["user_code"], "decision": "approve", "scopes": ["tasks:read"]}
    statuses = at_once(50, lambda number: opened[number].post("/pair", fields).status_code)
    assert statuses.count(302) == 1
    assert set(statuses) <= {302, 400, 429}
    assert poll(codes).json()["scope"] == "tasks:read"


def test_the_page_needs_no_script_and_nothing_from_elsewhere(user: User) -> None:
    codes = asked()
    answer = browser(user).post("/pair", {"user_code": codes["user_code"]})
    page = text(answer)
    assert "<script" not in page
    assert "style=" not in page
    assert re.findall(r'(?:src|href)="([^"]+)"', page) == ["/static/clients_app/pair.css"]
    assert finders.find("clients_app/pair.css")
    assert '<meta name="viewport"' in page
    assert answer["Content-Security-Policy"].startswith("default-src 'none'")
    assert answer["X-Frame-Options"] == "DENY"
    assert "no-store" in answer["Cache-Control"]
    assert browser(user).put("/pair").status_code == 405
