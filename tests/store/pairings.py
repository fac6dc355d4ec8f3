"""Pairing as its tests see it, in this process: a program that asks and polls, and the browser of a person."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import Any, TypeVar

from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client as Browser
from django.utils import timezone

from clients_app.pairing import deciding
from clients_app.pairing.models import Pairing
from clients_app.scopes import ALL
from lmsp_site.audit_log import Actor, ActorKind

PERSON = Actor(ActorKind.ADMIN, "a person", "192.0.2.1")
T = TypeVar("T")


def post(path: str, body: Any, **headers: str) -> Any:
    """Send JSON as a program without a token does; return Django's answer."""
    return Browser(SERVER_NAME="localhost").post(path, body, content_type="application/json", headers=headers)


def asked(*scopes: str, name: str = "Editor") -> dict[str, Any]:
    """Let a program ask for a token and return what it gets."""
    answer = post("/v1/pairing", {"client_name": name, "scopes": list(scopes or ALL)})
    assert answer.status_code == 200, answer.content
    codes: dict[str, Any] = answer.json()
    return codes


def poll(codes: dict[str, Any]) -> Any:
    """Ask for the token."""
    return post("/v1/pairing/token", {"device_code": codes["device_code"]})


def refusal(answer: Any) -> str:
    """Return the code of an error, which comes in the protocol's envelope."""
    assert answer.status_code == 400, answer.content
    error = answer.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    code: str = error["code"]
    return code


def row(codes: dict[str, Any]) -> Pairing:
    """Return what is stored of a pairing."""
    return Pairing.objects.get(user_code=codes["user_code"].replace("-", ""))


def approved(codes: dict[str, Any]) -> None:
    """Let a person approve."""
    deciding.approve(deciding.find(codes["user_code"]), PERSON)


def person(name: str = "person", *permissions: str, staff: bool = True) -> User:
    """Make a user of the admin who may do some things."""
    user = User.objects.create_user(name, is_staff=staff)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    return user


def browser(user: User | None = None, **options: Any) -> Browser:
    """Return a browser in which somebody is logged in, or nobody."""
    opened = Browser(SERVER_NAME="localhost", **options)
    if user:
        opened.force_login(user)
    return opened


def text(answer: Any) -> str:
    """Return a page."""
    page: str = answer.content.decode()
    return page


def expire(codes: dict[str, Any], ago: timedelta = timedelta(seconds=1)) -> None:
    """Let the codes of a pairing have expired a while ago."""
    Pairing.objects.filter(pk=row(codes).pk).update(expires_at=timezone.now() - ago)


def at_once(times: int, deed: Callable[[int], T]) -> list[T]:
    """Do something in many threads that begin together, each with its own connection."""
    together = Barrier(times)

    def one(number: int) -> T:
        together.wait(30)
        try:
            return deed(number)
        finally:
            connection.close()

    with ThreadPoolExecutor(times) as threads:
        return list(threads.map(one, range(times), timeout=120))
