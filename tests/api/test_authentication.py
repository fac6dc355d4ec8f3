"""Who is let in, and to what."""

from collections.abc import Iterator

import httpx
import pytest

from tests.api.bodies import body, error
from tests.service import Service

CALLS = [
    ("GET", "/v1/models", "models:read"),
    ("GET", "/v1/models/some/model", "models:read"),
    ("GET", "/v1/tasks", "tasks:read"),
    ("POST", "/v1/tasks", "tasks:write"),
    ("GET", "/v1/tasks/task_x", "tasks:read"),
    ("GET", "/v1/tasks/task_x/events", "tasks:read"),
    ("GET", "/v1/tasks/task_x/events?stream", "tasks:read"),
    ("POST", "/v1/tasks/task_x/cancel", "tasks:write"),
    ("POST", "/v1/responses", "responses:write"),
    ("POST", "/v1/chat/completions", "responses:write"),
    ("GET", "/v1/responses/resp_x", "responses:write"),
    ("GET", "/v1/responses/resp_x?stream=true", "responses:write"),
    ("POST", "/v1/responses/resp_x/cancel", "responses:write"),
]
CREATING = [("POST", path) for path in ("/v1/tasks", "/v1/responses", "/v1/chat/completions")]
SCOPES = ("models:read", "tasks:read", "tasks:write", "responses:write")
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


@pytest.mark.parametrize(("method", "path", "_scope"), CALLS)
def test_without_a_known_token_there_is_nothing(
    service: Service, anybody: httpx.Client, method: str, path: str, _scope: str
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


@pytest.fixture(scope="module")
def lacking(service: Service) -> Iterator[dict[str, httpx.Client]]:
    """Clients with all scopes but one, by that one."""
    clients = {}
    for scope in SCOPES:
        token = service.pair(f"lacks {scope}", *(other for other in SCOPES if other != scope))
        clients[scope] = service.http(token=token)
    yield clients
    for http in clients.values():
        http.close()


@pytest.mark.parametrize(("method", "path", "scope"), CALLS)
def test_without_its_scope_a_call_is_refused_whatever_the_id(
    service: Service, lacking: dict[str, httpx.Client], method: str, path: str, scope: str
) -> None:
    own = service.finished(service.create("Hi", max_output_tokens=1)["id"]) if "_x" in path else {}
    existing = path.replace("task_x", own.get("id", "")).replace("resp_x", own.get("response_id", ""))
    for address in {path, existing}:
        found = error(call(lacking[scope], method, address), 403)
        assert (found["type"], found["code"]) == ("permission_error", "insufficient_scope")
        assert scope in found["message"]


@pytest.mark.parametrize(("method", "path", "scope"), [row for row in CALLS if row[0] == "GET"])
def test_head_needs_the_scope_that_get_needs(
    lacking: dict[str, httpx.Client], method: str, path: str, scope: str
) -> None:
    assert lacking[scope].head(path.partition("?")[0]).status_code == 403


@pytest.mark.parametrize(("method", "path", "scope"), CALLS)
def test_every_other_scope_is_not_asked_for(
    lacking: dict[str, httpx.Client], method: str, path: str, scope: str
) -> None:
    for missing, http in lacking.items():
        if missing != scope and (method, path) not in CREATING:
            assert call(http, method, path).status_code in (200, 404)


@pytest.mark.parametrize("path", OPEN)
def test_what_says_who_and_how_the_service_is_needs_no_token(anybody: httpx.Client, path: str) -> None:
    for authorization in (None, "Bearer wrong"):
        assert call(anybody, "GET", path, authorization).status_code == 200


@pytest.mark.parametrize("path", [*OPEN, "/v1/models", "/v1/responses", "/admin/", "/nothing"])
@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "evil.example:8000", "[::2]", "a b", ""])
def test_an_unknown_host_is_refused_before_anything_else(service: Service, path: str, host: str) -> None:
    found = error(service.request("GET", path, headers={"Host": host}), 400)
    assert found["code"] == "invalid_host"


@pytest.mark.parametrize(("method", "path", "_scope"), CALLS)
def test_an_unknown_host_is_refused_where_calls_do_not_pass_through_django_too(
    service: Service, method: str, path: str, _scope: str
) -> None:
    with service.http() as http:
        http.headers["Host"] = "evil.example"
        assert error(call(http, method, path), 400)["code"] == "invalid_host"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:1234", "[::1]:80", "LOCALHOST"])
def test_loopback_names_are_known(service: Service, host: str) -> None:
    assert service.request("GET", "/v1/models", headers={"Host": host}).status_code == 200
