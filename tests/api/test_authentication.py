"""Who is let in, and to what."""

import re
from collections.abc import Iterator

import httpx
import pytest

from clients_app import scopes
from tests.api.bodies import body, error
from tests.service import Service

# Every call that asks for a token, with ids that there are not; those that can stream also as streams.
CALLS = [
    (row.method, re.sub(r"\{\w+(\.\.\.)?\}", "unknown", row.path))
    for row in scopes.CALLS
    if row.method != scopes.WEBSOCKET
] + [("GET", "/v1/tasks/unknown/events?stream"), ("GET", "/v1/responses/unknown?stream=true")]
OPEN = ("/.well-known/lmsp", "/healthz", "/readyz")


def call(http: httpx.Client, method: str, path: str, authorization: str | None = None) -> httpx.Response:
    headers = [(b"Accept", b"text/event-stream")] if path.endswith("?stream") else []
    if authorization is not None:
        # Latin-1, as HTTP has it; a client's own headers would be ASCII.
        headers.append((b"Authorization", authorization.encode("latin-1")))
    return http.request(method, path, headers=headers, json=body() if method == "POST" else None)


@pytest.fixture(scope="module")
def anybody(service: Service) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.url, timeout=60) as http:
        yield http


@pytest.mark.parametrize(("method", "path"), CALLS)
def test_without_a_known_token_there_is_nothing(
    service: Service, anybody: httpx.Client, method: str, path: str
) -> None:
    half = service.token[: len(service.token) // 2]
    changed = service.token[:-1] + ("a" if service.token[-1] != "a" else "b")
    for authorization in (
        None,
        "Bearer",
        "Bearer lmsp_",
        "Bearer lmsp_" + "A" * 49,
        "Bearer \xe9\xff",
        service.token,
        f"Basic {service.token}",
        f"Bearer {half}",
        f"Bearer {changed}",
        f"Bearer {service.token}x",
        f"Bearer {service.token} {service.token}",
    ):
        answer = call(anybody, method, path, authorization)
        found = error(answer, 401)
        assert (found["type"], found["code"]) == ("authentication_error", "invalid_token")
        assert answer.headers["www-authenticate"] == 'Bearer realm="lmsp"'
        assert service.token not in answer.text


def test_the_scheme_is_read_in_any_case(service: Service, anybody: httpx.Client) -> None:
    for scheme in ("bearer", "BEARER"):
        assert call(anybody, "GET", "/v1/models", f"{scheme} {service.token}").status_code == 200


@pytest.mark.parametrize("path", OPEN)
def test_what_says_who_and_how_the_service_is_needs_no_token(anybody: httpx.Client, path: str) -> None:
    for authorization in (None, "Bearer wrong"):
        assert call(anybody, "GET", path, authorization).status_code == 200


@pytest.mark.parametrize("path", [*OPEN, "/v1/models", "/v1/responses", "/admin/", "/nothing"])
@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "evil.example:8000", "[::2]", "a b", ""])
def test_an_unknown_host_is_refused_before_anything_else(service: Service, path: str, host: str) -> None:
    found = error(service.request("GET", path, headers={"Host": host}), 400)
    assert found["code"] == "invalid_host"


@pytest.mark.parametrize(("method", "path"), CALLS)
def test_an_unknown_host_is_refused_where_calls_do_not_pass_through_django_too(
    service: Service, method: str, path: str
) -> None:
    with service.http() as http:
        http.headers["Host"] = "evil.example"
        assert error(call(http, method, path), 400)["code"] == "invalid_host"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:1234", "[::1]:80", "LOCALHOST"])
def test_loopback_names_are_known(service: Service, host: str) -> None:
    assert service.request("GET", "/v1/models", headers={"Host": host}).status_code == 200
