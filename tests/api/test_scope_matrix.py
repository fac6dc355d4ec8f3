"""Every call, by tokens of every scope: each is let in by the scope that the table says, and by no other."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from clients_app.scopes import ALL, CALLS, WEBSOCKET, Call
from tests.api.bodies import error
from tests.api.clients import paired
from tests.service import MODEL, Service

PLAIN = [row for row in CALLS if row.method != WEBSOCKET]
SOCKETS = [row for row in CALLS if row.method == WEBSOCKET]
# How the calls are made that are answered in front of their views.
STREAMED = {
    "/v1/tasks/{task_id}/events": {"headers": {"Accept": "text/event-stream"}},
    "/v1/responses/{response_id}": {"params": {"stream": "true"}},
}


def named(row: Call) -> str:
    return f"{row.method} {row.path}"


@pytest.fixture(scope="module")
def tokens(service: Service) -> dict[tuple[str, ...], str]:
    """A token for no scope, for each alone, and for all but each."""
    granted = [(), *((scope,) for scope in ALL), *(tuple(other for other in ALL if other != scope) for scope in ALL)]
    return {scopes: paired(service, "matrix", *scopes).token for scopes in granted}


@pytest.fixture(scope="module")
def foreign(service: Service) -> dict[str, str]:
    """Ids that there are: of a task that is not the caller's, and of a model."""
    task = service.finished(service.create("Hi", max_output_tokens=1)["id"])
    return {"{task_id}": task["id"], "{response_id}": task["response_id"], "{model_id...}": MODEL}


@pytest.fixture(scope="module")
def anybody(service: Service) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.url, timeout=60) as http:
        yield http


def addresses(row: Call, ids: dict[str, str]) -> set[str]:
    """Return the address of a call with an id that there is, one that there is not, and one that cannot be."""
    found = set()
    for other in (None, "task_unknown", "%00%27%F0%9F%92%A9"):
        path = row.path
        for name, value in ids.items():
            path = path.replace(name, other or value)
        found.add(path)
    return found


def ask(anybody: httpx.Client, row: Call, path: str, token: str, **options: Any) -> httpx.Response:
    # A body that no call takes: what is let in is refused for that, and makes nothing.
    body: dict[str, Any] = {"json": {"nothing": True}} if row.method == "POST" else {}
    headers = {"Authorization": f"Bearer {token}", **options.pop("headers", {})}
    return anybody.request(row.method, path, headers=headers, **body, **options)


def ways(row: Call) -> list[dict[str, Any]]:
    return [{}, STREAMED[row.path]] if row.method == "GET" and row.path in STREAMED else [{}]


@pytest.mark.parametrize("row", PLAIN, ids=named)
def test_a_call_is_refused_without_its_scope_whatever_the_id(
    row: Call, service: Service, anybody: httpx.Client, tokens: dict[tuple[str, ...], str], foreign: dict[str, str]
) -> None:
    for scopes, known in tokens.items():
        # What is done to the client itself is the end of its token.
        token = paired(service, "matrix", *scopes).token if row.path.startswith("/v1/clients/me") else known
        for path in addresses(row, foreign):
            for way in ways(row):
                answer = ask(anybody, row, path, token, **way)
                if row.scope is None or row.scope in scopes:
                    assert answer.status_code not in (401, 403, 405, 500), (scopes, path)
                    continue
                found = error(answer, 403)
                assert (found["type"], found["code"]) == ("permission_error", "insufficient_scope")
                assert found["message"] == f"This call needs the scope {row.scope}, which this token does not carry."


@pytest.mark.parametrize("row", [row for row in PLAIN if row.method == "GET"], ids=named)
def test_head_needs_what_get_needs(
    row: Call, anybody: httpx.Client, tokens: dict[tuple[str, ...], str], foreign: dict[str, str]
) -> None:
    for scopes, token in tokens.items():
        for path in addresses(row, foreign):
            answer = anybody.head(path, headers={"Authorization": f"Bearer {token}"})
            assert (answer.status_code == 403) == (row.scope not in (None, *scopes)), (scopes, path)


@pytest.mark.parametrize("row", SOCKETS, ids=named)
def test_a_socket_is_refused_without_its_scope_whatever_the_id(
    row: Call, service: Service, tokens: dict[tuple[str, ...], str], foreign: dict[str, str]
) -> None:
    for scopes, token in tokens.items():
        for path in addresses(row, foreign):
            told, code = first_words(service, path, token)
            if row.scope in scopes:
                assert told["error"]["code"] in ("invalid_request", "task_not_found"), (scopes, path)
                continue
            assert (told["status"], code) == (403, 4403)
            assert told["error"]["code"] == "insufficient_scope"
            assert row.scope
            assert row.scope in told["error"]["message"]


def first_words(service: Service, path: str, token: str) -> tuple[dict[str, Any], int | None]:
    """Say nonsense on a socket; return the first error, and the code that closed it, if it did."""
    headers = {"Authorization": f"Bearer {token}"}
    with connect(f"ws://127.0.0.1:{service.port}{path}", additional_headers=headers, open_timeout=30) as opened:
        receive: Callable[..., Any] = opened.recv
        try:
            opened.send("{}")
            told = json.loads(receive(timeout=30))
        except ConnectionClosed:
            told = json.loads(receive(timeout=30))
        if told["status"] == 400:
            return told, None
        try:
            receive(timeout=30)
        except ConnectionClosed as closed:
            return told, closed.rcvd.code if closed.rcvd else None
    raise AssertionError(f"the socket is open after {told}")


def test_any_token_may_ask_which_verbs_an_address_has(
    anybody: httpx.Client, tokens: dict[tuple[str, ...], str]
) -> None:
    headers = {"Authorization": f"Bearer {tokens[()]}"}
    assert anybody.options("/v1/tasks", headers=headers).status_code == 200
    assert anybody.put("/v1/tasks", headers=headers).status_code == 405
