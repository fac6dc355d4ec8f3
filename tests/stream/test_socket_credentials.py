"""Who may open a socket: tokens by header or subprotocol, and pages of which origins."""

import json
import time
from contextlib import suppress
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin, Subprotocol

from tests.service import Service
from tests.stream.conftest import ORIGIN

SOCKETS = ("/v1/events", "/v1/responses", "/v1/tasks/task_unknown/events")


def open_socket(service: Service, path: str, *, subprotocols: list[str] | None = None, **options: Any) -> Any:
    offered = [Subprotocol(name) for name in subprotocols] if subprotocols else None
    return connect(f"ws://127.0.0.1:{service.port}{path}", subprotocols=offered, open_timeout=30, **options)


def first_error(opened: ClientConnection) -> str:
    """Say nonsense, and return the code of the error that it brings, if there was none before."""
    with suppress(ConnectionClosed):
        opened.send("{}")
    told = json.loads(opened.recv(timeout=30))
    assert told["type"] == "error"
    code: str = told["error"]["code"]
    return code


@pytest.mark.parametrize("path", SOCKETS)
def test_a_browser_gives_its_token_as_a_subprotocol(service: Service, path: str) -> None:
    with open_socket(service, path, subprotocols=["lmsp.v1", f"lmsp.token.{service.token}"]) as opened:
        assert opened.subprotocol == "lmsp.v1"
        assert service.token not in str(opened.response.headers)
        assert first_error(opened) in ("invalid_request", "task_not_found")


@pytest.mark.parametrize("path", SOCKETS)
@pytest.mark.parametrize("subprotocols", [["lmsp.v1", "lmsp.token.lmsp_wrong"], ["lmsp.v1"], None])
def test_a_wrong_token_or_none_closes_4401(service: Service, path: str, subprotocols: list[str] | None) -> None:
    with open_socket(service, path, subprotocols=subprotocols) as opened:
        assert opened.subprotocol == (subprotocols and "lmsp.v1")
        assert json.loads(opened.recv(timeout=30))["error"]["code"] == "invalid_token"
        with pytest.raises(ConnectionClosed) as closed:
            opened.recv(timeout=30)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4401


def test_the_token_alone_is_taken_and_not_echoed(service: Service) -> None:
    with open_socket(service, "/v1/events", subprotocols=[f"lmsp.token.{service.token}"]) as opened:
        assert opened.subprotocol is None
        assert [first_error(opened), first_error(opened)] == ["invalid_request"] * 2


@pytest.mark.parametrize("path", SOCKETS)
@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1", "http://127.0.0.1:1"])
def test_pages_of_other_origins_are_refused_before_the_handshake(impatient: Service, path: str, origin: str) -> None:
    headers = {"Authorization": f"Bearer {impatient.token}"}
    with pytest.raises(InvalidStatus) as refused:
        open_socket(impatient, path, origin=Origin(origin), additional_headers=headers).close()
    assert refused.value.response.status_code == 403


def test_pages_of_the_service_itself_and_of_configured_origins_are_not(impatient: Service) -> None:
    headers = {"Authorization": f"Bearer {impatient.token}"}
    for origin in (ORIGIN, ORIGIN.upper(), f"http://127.0.0.1:{impatient.port}"):
        with open_socket(impatient, "/v1/events", origin=Origin(origin), additional_headers=headers) as opened:
            assert [first_error(opened), first_error(opened)] == ["invalid_request"] * 2


def test_who_speaks_before_being_refused_is_let_go_at_once(service: Service) -> None:
    began = time.monotonic()
    for _ in range(30):
        with suppress(ConnectionClosed), open_socket(service, "/v1/events", subprotocols=["lmsp.v1"]) as opened:
            for _ in range(3):
                opened.send("{}")
            while True:
                opened.recv(timeout=30)
    assert time.monotonic() - began < 10
