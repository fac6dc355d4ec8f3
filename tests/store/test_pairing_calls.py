"""Pairing as a program sees it: POST /v1/pairing and /v1/pairing/token (RFC 8628)."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.utils import timezone

from clients_app import tokens
from clients_app.authentication import authenticate
from clients_app.models import Client
from clients_app.pairing import collecting, deciding, guesses, opening, user_codes
from clients_app.pairing.models import Pairing, Status
from clients_app.scopes import ALL
from tests.store.pairings import PERSON, approved, asked, at_once, expire, poll, post, refusal, row

pytestmark = pytest.mark.usefixtures("database")
URN = "urn:ietf:params:oauth:grant-type:device_code"


def test_a_program_gets_two_codes_without_a_credential() -> None:
    answer = post("/v1/pairing", {"client_name": "Editor", "scopes": ["tasks:read"]}, authorization="Bearer nonsense")
    assert answer.status_code == 200
    assert answer["Cache-Control"] == "no-store"
    codes = answer.json()
    assert re.fullmatch(r"[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}", codes["user_code"])
    assert codes["verification_uri"] == "http://localhost/pair"
    assert codes["verification_uri_complete"] == f"http://localhost/pair?user_code={codes['user_code']}"
    assert (codes["expires_in"], codes["interval"]) == (600, 5)
    stored = row(codes)
    assert (stored.name, stored.wished_scopes, stored.address) == ("Editor", ["tasks:read"], "127.0.0.1")


def test_scopes_that_are_left_out_are_all() -> None:
    assert post("/v1/pairing", {"client_name": "Editor"}).status_code == 200
    assert Pairing.objects.get().wished_scopes == list(ALL)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "client_name"),
        ({"client_name": None}, "client_name"),
        ({"client_name": "  "}, "client_name"),
        ({"client_name": 7}, "client_name"),
        ({"client_name": "x" * 101}, "client_name"),
        ({"client_name": "two\nlines"}, "client_name"),
        ({"client_name": "turned \u202e round"}, "client_name"),
        ({"client_name": "Editor", "scopes": []}, "scopes"),
        ({"client_name": "Editor", "scopes": None}, "scopes"),
        ({"client_name": "Editor", "scopes": "tasks:read"}, "scopes"),
        ({"client_name": "Editor", "scopes": {"tasks:read": True}}, "scopes"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_leaves_nothing(body: dict[str, Any], param: str) -> None:
    answer = post("/v1/pairing", body)
    assert refusal(answer) == "invalid_value"
    assert answer.json()["error"]["param"] == param
    assert not Pairing.objects.exists()


@pytest.mark.parametrize("path", ["/v1/pairing", "/v1/pairing/token"])
def test_a_long_body_is_refused_unread(path: str) -> None:
    answer = post(path, {"client_name": "x", "device_code": "x", "more": "x" * 20_000})
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "payload_too_large"


def test_an_unknown_scope_is_refused_by_name() -> None:
    answer = post("/v1/pairing", {"client_name": "Editor", "scopes": ["tasks:read", "everything"]})
    assert refusal(answer) == "invalid_value"
    assert "models:read" in answer.json()["error"]["message"]


def test_the_token_is_handed_out_once_after_a_person_has_approved(database: Path) -> None:
    codes = asked("tasks:read", "tasks:write", name="  My editor ")
    assert refusal(poll(codes)) == "authorization_pending"
    approved(codes)
    answer = poll(codes)
    assert answer.status_code == 200
    assert answer["Cache-Control"] == "no-store"
    given = answer.json()
    client = authenticate(f"Bearer {given['access_token']}")
    assert (client.name, client.scopes) == ("My editor", ["tasks:read", "tasks:write"])
    assert given == {
        "access_token": given["access_token"],
        "token_type": "Bearer",
        "scope": "tasks:read tasks:write",
        "client_id": client.id,
    }
    assert row(codes).client == client
    assert refusal(poll(codes)) == "invalid_grant"
    assert Client.objects.count() == 1


def test_neither_device_code_nor_token_is_stored(database: Path) -> None:
    codes = asked()
    approved(codes)
    assert not Client.objects.exists(), "there is no token before it is asked for"
    token = poll(codes).json()["access_token"]
    files = [path.read_bytes() for path in database.parent.glob("db.sqlite3*")]
    assert len(files) >= 2
    for secret in (codes["device_code"], token):
        assert not any(secret.encode() in content for content in files)
    assert row(codes).device_code_hash == tokens.digest(codes["device_code"])


def test_the_grant_type_may_be_named_and_must_be_the_right_one() -> None:
    codes = asked()
    named = {"device_code": codes["device_code"], "grant_type": URN}
    assert refusal(post("/v1/pairing/token", named)) == "authorization_pending"
    assert refusal(post("/v1/pairing/token", named | {"grant_type": "password"})) == "invalid_value"
    assert refusal(post("/v1/pairing/token", {})) == "invalid_value"


def test_a_device_code_that_nobody_has_got_is_refused() -> None:
    codes = asked()
    for wrong in ("x", codes["device_code"][:-1], codes["device_code"].swapcase(), codes["user_code"]):
        assert refusal(post("/v1/pairing/token", {"device_code": wrong})) == "invalid_grant"


def test_polling_too_soon_makes_the_interval_five_seconds_longer() -> None:
    codes = asked()
    with time_machine.travel(timezone.now(), tick=False) as clock:

        def polled(after: float) -> tuple[str, str]:
            clock.shift(after)
            answer = poll(codes)
            return refusal(answer), answer["Retry-After"]

        assert polled(0) == ("authorization_pending", "5")
        assert polled(5) == ("authorization_pending", "5")
        assert polled(3) == ("slow_down", "10")
        assert polled(5) == ("slow_down", "15"), "eight seconds after the last poll that was in time"
        assert polled(15) == ("authorization_pending", "15")
        assert polled(14.8) == ("authorization_pending", "15"), "no line is equally fast each time"
        assert polled(14) == ("slow_down", "20")
        approved(codes)
        clock.shift(0.1)
        assert poll(codes).status_code == 200, "who has been approved need not wait"


def test_a_program_that_never_waits_writes_no_more_after_a_while() -> None:
    codes = asked()
    poll(codes)
    Pairing.objects.update(interval=596)
    assert poll(codes)["Retry-After"] == "600"
    assert poll(codes)["Retry-After"] == "600"
    assert row(codes).interval == 600


def test_a_clock_that_was_set_back_keeps_nobody_from_polling() -> None:
    codes = asked()
    poll(codes)
    with time_machine.travel(timezone.now() - timedelta(days=3), tick=False):
        assert refusal(poll(codes)) == "authorization_pending"
        assert refusal(poll(codes)) == "slow_down"


def test_what_was_denied_stays_denied() -> None:
    codes = asked()
    deciding.deny(deciding.find(codes["user_code"]), PERSON)
    for _ in range(2):
        assert refusal(poll(codes)) == "access_denied"
    with pytest.raises(deciding.UnknownCode):
        approved(codes)
    assert not Client.objects.exists()


@pytest.mark.parametrize("decided", [False, True])
def test_a_code_expires_after_ten_minutes(decided: bool) -> None:
    codes = asked()
    if decided:
        approved(codes)
    with time_machine.travel(timezone.now() + opening.LIFETIME - timedelta(seconds=5), tick=False) as clock:
        if not decided:
            assert refusal(poll(codes)) == "authorization_pending"
        clock.shift(6)
        assert refusal(poll(codes)) == "expired_token"
        with pytest.raises(deciding.UnknownCode):
            approved(codes)
    assert not Client.objects.exists()


def test_of_fifty_polls_at_once_one_gets_the_token() -> None:
    codes = asked()
    approved(codes)
    answers = at_once(50, lambda _: poll(codes))
    (given,) = [answer.json() for answer in answers if answer.status_code == 200]
    assert [refusal(answer) for answer in answers if answer.status_code != 200] == ["invalid_grant"] * 49
    assert Client.objects.get().id == given["client_id"]


def test_of_fifty_polls_at_once_that_come_too_early_one_is_in_time() -> None:
    codes = asked()
    codes_of_answers = sorted(refusal(answer) for answer in at_once(50, lambda _: poll(codes)))
    assert codes_of_answers == ["authorization_pending"] + ["slow_down"] * 49


def test_a_decision_meets_a_poll() -> None:
    """Whatever comes first: there is a client if and only if a token was handed out."""
    for _ in range(5):
        codes = asked()
        pairing = row(codes)

        def one(number: int, codes: dict[str, Any] = codes, pairing: Pairing = pairing) -> int:
            if number:
                return int(poll(codes).status_code)
            deciding.approve(pairing, PERSON)
            return 0

        given = at_once(8, one).count(200)
        assert given == Client.objects.filter(pk=row(codes).client_id).count()
        assert row(codes).status == (Status.COLLECTED if given else Status.APPROVED)


def test_open_pairings_are_bounded() -> None:
    first = asked()
    Pairing.objects.update(expires_at=timezone.now() + timedelta(seconds=90))
    for _ in range(opening.MOST_OPEN - 1):
        asked()
    refused = post("/v1/pairing", {"client_name": "one more"})
    assert refused.status_code == 429
    assert refused.json()["error"]["code"] == "too_many_pairings"
    assert 85 <= int(refused["Retry-After"]) <= 90
    assert Pairing.objects.count() == opening.MOST_OPEN
    deciding.deny(row(first), PERSON)
    another = asked()
    approved(another)
    assert post("/v1/pairing", {"client_name": "one more"}).status_code == 429, "an approved one still waits"
    assert poll(another).status_code == 200
    expire(asked())
    assert post("/v1/pairing", {"client_name": "one more"}).status_code == 200


def test_the_bound_holds_for_many_at_once() -> None:
    answers = at_once(50, lambda number: post("/v1/pairing", {"client_name": f"program {number}"}).status_code)
    assert sorted(answers) == [200] * opening.MOST_OPEN + [429] * (50 - opening.MOST_OPEN)


def test_a_code_that_was_guessed_becomes_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = asked()["user_code"].replace("-", "")
    guesses.count("BBBBBBBB")
    drawn = iter([taken, "BBBBBBBB", "CCCCCCCC"])
    monkeypatch.setattr(user_codes, "generate", lambda: next(drawn))
    assert asked()["user_code"] == "CCCC-CCCC"


def test_a_client_that_is_gone_leaves_its_pairing() -> None:
    codes = asked()
    approved(codes)
    client, _ = collecting.collect(codes["device_code"], "")
    client.delete()
    assert row(codes).client is None
    assert refusal(poll(codes)) == "invalid_grant"
