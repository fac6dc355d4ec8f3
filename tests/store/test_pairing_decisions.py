"""A person's part in pairing: user codes and guesses at them, narrowing, the commands; and what is purged."""

import io
import json
import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.core.management import CommandError, call_command
from django.utils import timezone

from clients_app.models import Client
from clients_app.pairing import deciding, guesses, user_codes
from clients_app.pairing.guesses import MOST_IN_ALL, MOST_OF_ONE_CODE, TooManyGuesses
from clients_app.pairing.models import GuessCount, Pairing, Status
from lmsp_site.audit_log import AuditEntry
from tasks_app import retention
from tests.service import REPOSITORY
from tests.store.pairings import PERSON, approved, asked, at_once, expire, poll, refusal, row

pytestmark = pytest.mark.usefixtures("database")


def wrong_codes(number: int) -> list[str]:
    """Return codes that nobody has."""
    codes = (f"{first}{second}BBBBBB" for first in user_codes.ALPHABET for second in user_codes.ALPHABET)
    return [next(codes) for _ in range(number)]


def guess(code: str) -> None:
    with pytest.raises(deciding.UnknownCode):
        deciding.find(code)


def command(name: str, *arguments: str) -> dict[str, Any]:
    out = io.StringIO()
    call_command(name, *arguments, "--json", stdout=out)
    answer: dict[str, Any] = json.loads(out.getvalue())
    return answer


def test_a_code_is_read_however_it_is_typed() -> None:
    codes = asked()
    shown = codes["user_code"]
    for typed in (
        shown,
        shown.lower(),
        shown.replace("-", ""),
        f" {shown.replace('-', ' ').title()}\n",
        "-".join(shown),
    ):
        assert deciding.find(typed) == row(codes)
    assert user_codes.shown(row(codes).user_code) == shown


def test_codes_have_no_vowels_and_differ() -> None:
    drawn = {user_codes.generate() for _ in range(500)}
    assert len(drawn) == 500
    assert set("".join(drawn)) == set(user_codes.ALPHABET)
    assert not set(user_codes.ALPHABET) & set("AEIOUY")


def test_wrong_used_and_expired_codes_look_the_same() -> None:
    used, denied, expired = asked(), asked(), asked()
    approved(used)
    deciding.deny(row(denied), PERSON)
    expire(expired)
    told = set()
    for code in ("BCDFGHJK", "AEIOU", "", "x" * 500, *(codes["user_code"] for codes in (used, denied, expired))):
        with pytest.raises(deciding.UnknownCode) as refused:
            deciding.find(code)
        told.add(str(refused.value))
    assert len(told) == 1


def test_guesses_of_one_code_are_limited_and_others_are_not() -> None:
    codes = asked()
    (code,) = wrong_codes(1)
    for _ in range(MOST_OF_ONE_CODE):
        guess(code)
    with pytest.raises(TooManyGuesses) as refused:
        deciding.find(code.lower())
    assert 0 < refused.value.retry_after <= 600
    assert deciding.find(codes["user_code"]) == row(codes)


def test_a_code_that_was_used_is_a_guess_too() -> None:
    codes = asked()
    approved(codes)
    for _ in range(MOST_OF_ONE_CODE):
        guess(codes["user_code"])
    with pytest.raises(TooManyGuesses):
        deciding.find(codes["user_code"])


def test_guesses_are_limited_in_all_for_the_right_code_too() -> None:
    codes = asked()
    for code in wrong_codes(MOST_IN_ALL - 1):
        guess(code)
    guess("no code at all")
    for code in (codes["user_code"], "ZZZZZZZZ", "no code at all"):
        with pytest.raises(TooManyGuesses):
            deciding.find(code)
    assert GuessCount.objects.count() == MOST_IN_ALL, "beyond the limit nothing is written"
    # The list in the admin knows no codes, and so no guesses.
    deciding.approve(row(codes), PERSON)
    assert poll(codes).status_code == 200


def test_a_count_begins_anew_after_ten_minutes() -> None:
    with time_machine.travel(timezone.now(), tick=False) as clock:
        for _ in range(MOST_OF_ONE_CODE):
            guess("BBBBBBBB")
        clock.shift(guesses.WINDOW - timedelta(seconds=1))
        with pytest.raises(TooManyGuesses) as refused:
            deciding.find("BBBBBBBB")
        assert refused.value.retry_after == 1
        clock.shift(1)
        guess("BBBBBBBB")
        assert GuessCount.objects.get(pk="BBBBBBBB").count == 1


def test_many_guesses_at_once_do_not_slip_through() -> None:
    codes = wrong_codes(MOST_IN_ALL + 30)

    def one(number: int) -> str:
        try:
            deciding.find(codes[number])
        except TooManyGuesses:
            return "too many"
        except deciding.UnknownCode:
            return "unknown"
        return "found"

    answers = at_once(len(codes), one)
    assert (answers.count("unknown"), answers.count("too many")) == (MOST_IN_ALL, 30)


def test_a_new_process_remembers_the_guesses() -> None:
    codes = asked()
    for code in wrong_codes(MOST_IN_ALL - 1):
        guess(code)

    def process(code: str) -> str:
        line = [sys.executable, "manage.py", "approve_client", code, "--json"]
        done = subprocess.run(line, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stdout) == (1, "")
        return done.stderr

    assert "Nothing waits under this code" in process("ZZZZ-ZZZZ")
    assert "Too many wrong codes" in process(codes["user_code"])
    assert row(codes).status == Status.PENDING


def test_scopes_can_be_narrowed_and_not_widened() -> None:
    codes = asked("models:read", "tasks:read", "tasks:write")
    pairing = deciding.find(codes["user_code"])
    for scopes in ([], ["responses:write"], ["models:read", "responses:write"]):
        with pytest.raises(deciding.ScopesNotWished):
            deciding.approve(pairing, PERSON, scopes)
    assert refusal(poll(codes)) == "authorization_pending"
    deciding.approve(pairing, PERSON, ["tasks:write", "models:read"])
    assert poll(codes).json()["scope"] == "models:read tasks:write"


def test_of_fifty_who_have_found_it_one_decides() -> None:
    codes = asked("tasks:read")
    pairing = deciding.find(codes["user_code"])

    def one(number: int) -> str | None:
        try:
            if number % 2:
                deciding.deny(Pairing.objects.get(pk=pairing.pk), PERSON)
            else:
                deciding.approve(Pairing.objects.get(pk=pairing.pk), PERSON)
        except deciding.UnknownCode:
            return None
        return "denied" if number % 2 else "approved"

    (decision,) = filter(None, at_once(50, one))
    assert row(codes).status == decision
    assert AuditEntry.objects.get().action == decision


def test_the_commands_approve_narrow_and_deny() -> None:
    whole, narrowed, denied = asked(), asked(), asked()
    given = command("approve_client", whole["user_code"].lower())
    assert given == {
        "pairing_id": row(whole).id,
        "name": "Editor",
        "status": "approved",
        "scopes": row(whole).wished_scopes,
    }
    assert command("approve_client", narrowed["user_code"], "--scopes", "tasks:read, models:read")["scopes"] == [
        "models:read",
        "tasks:read",
    ]
    assert command("deny_client", denied["user_code"].replace("-", ""))["status"] == "denied"
    assert poll(whole).json()["scope"].count(":") == 4
    assert poll(narrowed).json()["scope"] == "models:read tasks:read"
    assert refusal(poll(denied)) == "access_denied"


@pytest.mark.parametrize("name", ["approve_client", "deny_client"])
def test_a_command_says_what_hinders_it(name: str) -> None:
    codes = asked("tasks:read")
    approved(codes)
    with pytest.raises(CommandError, match="Nothing waits under this code"):
        command(name, codes["user_code"])


@pytest.mark.parametrize(
    ("scopes", "message"), [("models:read", "did not ask for"), ("", "at least one"), ("all", "Unknown scope")]
)
def test_a_command_grants_no_scope_that_makes_no_sense(scopes: str, message: str) -> None:
    codes = asked("tasks:read")
    with pytest.raises(CommandError, match=message):
        command("approve_client", codes["user_code"], "--scopes", scopes)
    assert row(codes).status == Status.PENDING


def test_expired_pairings_and_old_counts_are_purged() -> None:
    young, recent, old, collected = asked(), asked(), asked(), asked()
    approved(collected)
    poll(collected)
    expire(recent, timedelta(minutes=59))
    for codes in (old, collected):
        expire(codes, timedelta(minutes=61))
    guess("BBBBBBBB")
    with time_machine.travel(timezone.now() - timedelta(minutes=11)):
        guess("CCCCCCCC")
    assert retention.purge()["pairings_deleted"] == 2
    assert set(Pairing.objects.all()) == {row(young), row(recent)}
    assert not GuessCount.objects.filter(pk="CCCCCCCC").exists()
    assert refusal(poll(recent)) == "expired_token"
    assert refusal(poll(old)) == "invalid_grant"
    assert Client.objects.count() == 1, "the client outlives its pairing"
    assert retention.purge()["pairings_deleted"] == 0
