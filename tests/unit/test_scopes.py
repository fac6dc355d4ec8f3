"""The table of scopes has a row for every call of the service, and no other."""

import re
from collections.abc import Iterator

import pytest
from django.urls import URLPattern, URLResolver, get_resolver

from clients_app.scopes import ALL, CALLS, WEBSOCKET, Call, call
from tasks_app.consumers import NowhereConsumer
from tasks_app.urls import streaming_app, websocket_urlpatterns
from tests.conformance.described import operations
from tests.service import REPOSITORY

# Calls that need no credential.
OPEN = {
    *("/.well-known/lmsp", "/healthz", "/readyz", "/metrics", "/v1/openapi.json", "/v1/docs"),
    *("/pair", "/v1/pairing", "/v1/pairing/token"),
}
_ROW = re.compile(r"^\| `([A-Z]+) (/\S+)` \| `?([\w:]+|any)`? \|$", re.MULTILINE)


def routes(
    patterns: list[URLPattern | URLResolver] | None = None, prefix: str = "/"
) -> Iterator[tuple[str, URLPattern]]:
    """Yield every address of the service but those of the admin, with what it leads to."""
    for pattern in get_resolver().url_patterns if patterns is None else patterns:
        address = f"{prefix}{pattern.pattern}"
        if isinstance(pattern, URLPattern):
            yield address, pattern
        elif not address.startswith("/admin/"):
            yield from routes(pattern.url_patterns, address)


def sample(path: str) -> str:
    """Return an address that a route, or a path of the table, leads to."""
    return re.sub(r"<\w+:\w+>|\{\w+(\.\.\.)?\}", "x", path)


def calls_of_views() -> set[tuple[str, str]]:
    """Return method and address of every call that asks for a token."""
    found = set()
    for address, route in routes():
        view = getattr(route.callback, "view_class", None)
        assert (address in OPEN) == (not getattr(view, "authentication_classes", ())), address
        if view is None or address in OPEN:
            continue
        instance = view()
        instance.setup(None)
        found |= {(method, sample(address)) for method in instance.allowed_methods if method not in ("HEAD", "OPTIONS")}
    return found


def sockets() -> set[str]:
    """Return every address that is a websocket."""
    return {
        sample(re.sub(r"\(\?P<\w+>.*?\)", "x", str(route.pattern).strip("^$")))
        for route in websocket_urlpatterns.routes
        if route.callback.consumer_class is not NowhereConsumer
    }


def test_every_call_of_the_service_is_in_the_table_and_no_other() -> None:
    plain = {(row.method, sample(row.path)) for row in CALLS if row.method != WEBSOCKET}
    assert plain == calls_of_views()
    assert len(plain) > 15


def test_every_websocket_is_in_the_table_and_no_other() -> None:
    # Those of the admin ask for a session, and take no token.
    asking = {f"/{path}" for path in sockets() if not path.startswith("admin/")}
    assert {sample(row.path) for row in CALLS if row.method == WEBSOCKET} == asking


def test_every_call_that_is_answered_in_front_of_its_view_is_in_the_table() -> None:
    answered = set()
    for row in CALLS:
        scope = {
            "method": row.method,
            "path": sample(row.path),
            "query_string": b"stream=true",
            "headers": [(b"accept", b"text/event-stream")],
        }
        if streaming_app(scope):
            answered.add((row.method, row.path))
    assert answered == {
        ("POST", "/v1/responses"),
        ("POST", "/v1/chat/completions"),
        ("GET", "/v1/responses/{response_id}"),
        ("GET", "/v1/tasks/{task_id}/events"),
    }


@pytest.mark.parametrize("row", CALLS, ids=lambda row: f"{row.method} {row.path}")
def test_a_row_is_found_by_its_address_and_described(row: Call) -> None:
    method, path, scope = row
    assert call(method, sample(path)) == row
    if method == "GET":
        assert call("HEAD", sample(path)) == row
    assert scope is None or scope in ALL
    if method != WEBSOCKET:
        described = operations()[path.replace("...", ""), method]
        assert described["security"] == [{"bearer": [scope] if scope else []}]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/tasks/"),
        ("GET", "/v1/tasks//events"),
        ("GET", "/v1/tasks/a/b"),
        ("PATCH", "/v1/tasks/a"),
        ("GET", "/v1/models/"),
        ("get", "/v1/tasks"),
        (WEBSOCKET, "/v1/tasks"),
        ("GET", "/v1/tasks\n"),
        ("GET", "/x/v1/tasks"),
    ],
)
def test_what_is_no_call_has_no_row(method: str, path: str) -> None:
    assert call(method, path) is None


def test_the_table_in_the_documentation_is_this_one() -> None:
    page = (REPOSITORY / "docs" / "clients.md").read_text()
    assert _ROW.findall(page) == [(row.method, row.path, row.scope or "any") for row in CALLS]
    (free,) = re.findall(r"^Without a token: (.*)\.$", page, re.MULTILINE)
    assert set(re.findall(r"`(\S+)`", free)) == OPEN
