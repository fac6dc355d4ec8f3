"""By which names the service answers, and that no other one reaches anything: calls, streams, sockets, pages."""

import pytest

from tests.security.arranged import ALLOWED_HOST
from tests.security.plain import ask, head, upgrade
from tests.service import Service

FOREIGN = ("evil.example", f"{ALLOWED_HOST}.evil.example", "127.0.0.1.evil.example", "127.0.0.3", "a b", "")
STREAM = "Accept: text/event-stream"


@pytest.mark.parametrize("host", FOREIGN)
@pytest.mark.parametrize(
    "path", ["/healthz", "/v1/models", "/admin/login/", "/v1/docs", "/static/admin/css/base.css", "/"]
)
def test_a_call_by_another_name_is_refused(guarded: Service, path: str, host: str) -> None:
    answer = ask(guarded, head("GET", path, host=host))
    assert (answer.status, answer.code) == (400, "invalid_host")
    assert b"LMSP_ALLOWED_HOSTS" in answer.body


@pytest.mark.parametrize("host", FOREIGN)
def test_a_stream_by_another_name_is_refused(guarded: Service, host: str) -> None:
    token = f"Authorization: Bearer {guarded.token}"
    answer = ask(guarded, head("GET", "/v1/tasks/task_x/events", STREAM, token, host=host))
    assert (answer.status, answer.code) == (400, "invalid_host")


@pytest.mark.parametrize("host", FOREIGN)
@pytest.mark.parametrize("path", ["/v1/events", "/v1/responses", "/v1/tasks/task_x/events", "/nothing"])
def test_a_socket_by_another_name_is_refused_before_its_handshake(guarded: Service, path: str, host: str) -> None:
    # A page that was rebound has an origin of the same name.
    answer = ask(guarded, upgrade(path, f"Origin: http://{host}", host=host))
    assert (answer.status, answer.code) == (400, "invalid_host")


def test_of_two_names_none_counts(guarded: Service) -> None:
    for second in ("evil.example", "127.0.0.1"):
        for request in (head("GET", "/healthz", f"Host: {second}"), upgrade("/v1/events", f"Host: {second}")):
            answer = ask(guarded, request)
            assert (answer.status, answer.code) == (400, "invalid_host")


def test_what_a_proxy_would_say_is_no_name(guarded: Service) -> None:
    assert ask(guarded, head("GET", "/healthz", "X-Forwarded-Host: evil.example")).status == 200
    assert ask(guarded, head("GET", "/healthz", "X-Forwarded-Host: 127.0.0.1", host="evil.example")).status == 400


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:1", "[::1]", ALLOWED_HOST, f"{ALLOWED_HOST.upper()}:8000"])
def test_its_own_names_are_known_everywhere(guarded: Service, host: str) -> None:
    token = f"Authorization: Bearer {guarded.token}"
    assert ask(guarded, head("GET", "/v1/models", token, host=host)).status == 200
    assert ask(guarded, head("GET", "/v1/tasks/task_x/events", STREAM, token, host=host)).code == "task_not_found"
    assert ask(guarded, upgrade("/v1/events", token, host=host)).status == 101


def test_no_caller_says_where_the_service_itself_is(guarded: Service) -> None:
    answer = ask(guarded, head("GET", "/admin/", "Daphne-Root-Path: /elsewhere"))
    assert (answer.status, answer.headers["location"]) == (302, "/admin/login/?next=/admin/")
