"""How often people may fail to sign in to the admin."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import time_machine
from django.contrib.auth.models import User
from django.db import connections
from django.test import Client as Browser
from django.test import override_settings

from lmsp_site import login_throttle
from lmsp_site.login_throttle import MOST_AS_ONE_USER, MOST_IN_ALL, WINDOW
from lmsp_site.models import LoginAttempt
from tests.service import REPOSITORY

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
PASSWORD = "the right one 17"

SignIn = Callable[..., tuple[int, str]]


@pytest.fixture
def clock() -> object:
    with time_machine.travel(NOW, tick=False) as moved:
        yield moved


@pytest.fixture
def sign_in(database: Path) -> Iterator[SignIn]:
    """What signs in, and says status and page."""

    def attempt(username: str = "admin", password: str = "wrong", **headers: str) -> tuple[int, str]:
        form = {"username": username, "password": password}
        answer = Browser(SERVER_NAME="127.0.0.1").post("/admin/login/?next=/admin/", form, headers=headers)
        return answer.status_code, answer.content.decode()

    # A hash that is as slow as it should be would make a minute of these tests.
    with override_settings(PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"]):
        User.objects.create_superuser("admin", password=PASSWORD)
        yield attempt


@pytest.mark.usefixtures("clock")
def test_after_too_many_failures_the_right_password_does_not_help_either(sign_in: SignIn) -> None:
    assert [sign_in()[0] for _ in range(MOST_AS_ONE_USER)] == [200] * MOST_AS_ONE_USER
    status, page = sign_in(password=PASSWORD)
    assert status == 429
    assert "Too many failed sign-ins as this user. Try again in 15 minutes." in page
    assert PASSWORD not in page


def test_when_the_first_failure_is_long_ago_there_is_one_more_try(
    sign_in: SignIn, clock: time_machine.Traveller
) -> None:
    for _ in range(MOST_AS_ONE_USER):
        sign_in()
        clock.shift(timedelta(minutes=1))
    assert "Try again in 10 minutes." in sign_in(password=PASSWORD)[1]
    clock.move_to(NOW + WINDOW)
    assert sign_in(password=PASSWORD)[0] == 302


@pytest.mark.usefixtures("clock")
def test_who_signs_in_begins_anew(sign_in: SignIn) -> None:
    for _ in range(2):
        assert [sign_in()[0] for _ in range(MOST_AS_ONE_USER - 1)] == [200] * (MOST_AS_ONE_USER - 1)
        assert sign_in(password=PASSWORD)[0] == 302
    assert not LoginAttempt.objects.exists()


@pytest.mark.usefixtures("clock")
def test_no_spelling_and_no_header_makes_another_user_or_caller(sign_in: SignIn) -> None:
    spellings = ("admin", "ADMIN", "Admin", "\uff41dmin", "aDmin")
    for number, username in enumerate(spellings):
        assert sign_in(username, x_forwarded_for=f"203.0.113.{number}", user_agent=str(number))[0] == 200
    assert sign_in(password=PASSWORD, x_forwarded_for="198.51.100.1", x_real_ip="198.51.100.1")[0] == 429


@pytest.mark.usefixtures("clock")
def test_another_user_is_not_kept_out_until_there_are_too_many_in_all(sign_in: SignIn) -> None:
    for number in range(MOST_IN_ALL):
        # Users who do not exist count as those who do: nobody learns which there are.
        assert sign_in(f"user{number // MOST_AS_ONE_USER}")[0] == 200
        if number == MOST_IN_ALL // 2:
            assert sign_in("user0")[0] == 429
            assert sign_in(password=PASSWORD)[0] == 302
    status, page = sign_in(password=PASSWORD)
    assert (status, "Too many failed sign-ins. Try again" in page) == (429, True)
    assert LoginAttempt.objects.count() == MOST_IN_ALL


@pytest.mark.usefixtures("clock")
def test_what_is_missing_or_forged_is_no_attempt(sign_in: SignIn) -> None:
    for _ in range(2 * MOST_AS_ONE_USER):
        assert sign_in(password="")[0] == 200
    forging = Browser(enforce_csrf_checks=True, SERVER_NAME="127.0.0.1")
    for _ in range(2 * MOST_AS_ONE_USER):
        assert forging.post("/admin/login/", {"username": "admin", "password": "x"}).status_code == 403
    assert not LoginAttempt.objects.exists()


def test_what_is_stored_is_neither_name_nor_password_and_goes_away(
    sign_in: SignIn, clock: time_machine.Traveller, database: Path
) -> None:
    for _ in range(3):
        sign_in("typed by mistake 23", "hidden 23")
    connections.close_all()
    stored = b"".join(path.read_bytes() for path in database.parent.glob(f"{database.name}*"))
    assert b"by mistake" not in stored
    assert b"hidden 23" not in stored
    clock.shift(WINDOW)
    sign_in("another")
    assert LoginAttempt.objects.count() == 1


def test_of_many_attempts_at_once_no_more_get_through(database: Path) -> None:
    def attempt(_: int) -> bool:
        try:
            login_throttle.begin("admin")
        except login_throttle.TooManyAttempts:
            return False
        finally:
            connections.close_all()
        return True

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(attempt, range(20))) == MOST_AS_ONE_USER


def test_another_process_forgets_nothing(database: Path) -> None:
    for _ in range(MOST_AS_ONE_USER):
        login_throttle.begin("admin")
    connections.close_all()
    again = "from lmsp_site import login_throttle; login_throttle.begin('admin')"
    done = subprocess.run(
        [sys.executable, "manage.py", "shell", "--verbosity", "0", "--command", again],
        cwd=REPOSITORY,
        env={**os.environ, "LMSP_DATA_DIR": str(database.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "TooManyAttempts: Too many failed sign-ins as this user." in done.stderr
