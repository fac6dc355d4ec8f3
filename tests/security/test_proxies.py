"""Who a caller is taken for, with and without a proxy that the service trusts."""

import asyncio
import dataclasses
import ipaddress
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings

from lmsp_site.asgi_http import Message, Receive, Scope, Send
from lmsp_site.proxies import TrustedProxies

TRUSTED = tuple(ipaddress.ip_network(network) for network in ("127.0.0.1", "10.1.0.0/16", "fd00::/8"))


def seen(client: str | None, *, kind: str = "http", trusted: Any = TRUSTED, **headers: str) -> Scope:
    """Return the scope that an application is given of a call that `client` makes."""
    scopes: list[Scope] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        scopes.append(scope)

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        raise AssertionError(message)

    lines = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": kind, "headers": lines, "client": client and [client, 5], "scheme": "http"}
    with override_settings(LMSP=dataclasses.replace(settings.LMSP, trusted_proxies=trusted)):
        asyncio.run(TrustedProxies(application)(scope, receive, send))
    return scopes[0]


def test_a_proxy_that_is_trusted_says_who_calls_and_how() -> None:
    scope = seen("127.0.0.1", x_forwarded_for="203.0.113.9", x_forwarded_proto="https")
    assert (scope["client"][0], scope["scheme"]) == ("203.0.113.9", "https")
    assert seen("127.0.0.1", kind="websocket", x_forwarded_proto="https")["scheme"] == "wss"


@pytest.mark.parametrize("client", ["192.0.2.1", "10.2.0.1", "::1", "not an address", None])
def test_nobody_else_does(client: str | None) -> None:
    scope = seen(client, x_forwarded_for="203.0.113.9", x_forwarded_proto="https")
    assert (scope["client"], scope["scheme"]) == (client and [client, 5], "http")


def test_without_the_setting_not_even_this_machine_does() -> None:
    scope = seen("127.0.0.1", trusted=(), x_forwarded_for="203.0.113.9", x_forwarded_proto="https")
    assert (scope["client"], scope["scheme"]) == (["127.0.0.1", 5], "http")


@pytest.mark.parametrize(
    ("listed", "caller"),
    [
        # What a caller sends itself stands in front.
        ("127.0.0.1, 203.0.113.9", "203.0.113.9"),
        ("198.51.100.1, 203.0.113.9, 10.1.2.3", "203.0.113.9"),
        ("203.0.113.9, fd00::7", "203.0.113.9"),
        ("10.1.2.3, 10.1.2.4", "10.1.2.3"),
        ("198.51.100.1, nonsense", "127.0.0.1"),
        ("198.51.100.1, nonsense, 10.1.2.3", "10.1.2.3"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
    ],
)
def test_the_caller_is_the_nearest_that_is_not_trusted(listed: str, caller: str) -> None:
    assert seen("127.0.0.1", x_forwarded_for=listed)["client"][0] == caller
    assert seen("::ffff:127.0.0.1", x_forwarded_for=listed)["client"][0] == caller.replace("127", "::ffff:127")


@pytest.mark.parametrize("scheme", ["http", "", "ftp", "https, http", "javascript"])
def test_only_tls_at_the_nearest_proxy_counts_as_such(scheme: str) -> None:
    assert seen("127.0.0.1", x_forwarded_proto=scheme)["scheme"] == "http"


@pytest.mark.parametrize("client", ["127.0.0.1", "192.0.2.1"])
def test_no_application_sees_the_headers(client: str) -> None:
    scope = seen(
        client,
        x_forwarded_for="a",
        x_forwarded_host="b",
        x_forwarded_user="c",
        forwarded="for=d",
        x_real_ip="e",
        accept="f",
    )
    assert scope["headers"] == [(b"accept", b"f")]
