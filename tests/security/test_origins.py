"""What pages of other origins may do: nothing but what the operator has allowed to a page."""

import httpx
import pytest

from tests.api.bodies import body, error
from tests.security.arranged import ALLOWED_ORIGIN
from tests.security.plain import ask, upgrade
from tests.service import Service

FOREIGN = ("https://evil.example", "null", ALLOWED_ORIGIN.replace("http:", "https:"), f"{ALLOWED_ORIGIN}0", "")
WANTED = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,x-stainless-os"}
PATHS = ("/v1/tasks", "/v1/responses", "/v1/tasks/task_x/events", "/healthz", "/nothing")


def cors(answer: httpx.Response) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name.startswith("access-control-")}


# Numbers for names: the processes that share the tests must agree on them, and one origin has a port of this run.
@pytest.mark.parametrize("origin", FOREIGN, ids=range(len(FOREIGN)))
@pytest.mark.parametrize("path", PATHS)
def test_a_preflight_of_another_origin_is_refused(guarded: Service, path: str, origin: str) -> None:
    answer = guarded.request("OPTIONS", path, headers={"Origin": origin, **WANTED})
    assert error(answer, 403)["code"] == "origin_not_allowed"
    assert not cors(answer)


@pytest.mark.parametrize("path", PATHS)
def test_a_preflight_of_the_allowed_origin_is_answered_for_every_call(guarded: Service, path: str) -> None:
    answer = guarded.request("OPTIONS", path, headers={"Origin": ALLOWED_ORIGIN, **WANTED})
    assert (answer.status_code, answer.content) == (204, b"")
    assert answer.headers["access-control-allow-origin"] == ALLOWED_ORIGIN
    assert answer.headers["access-control-allow-headers"] == "authorization,x-stainless-os"
    assert {"GET", "POST", "DELETE"} <= set(answer.headers["access-control-allow-methods"].split(", "))
    assert "origin" in answer.headers["vary"].lower()
    assert "access-control-allow-credentials" not in answer.headers


@pytest.mark.parametrize("origin", [*FOREIGN, ALLOWED_ORIGIN, None], ids=range(len(FOREIGN) + 2))
def test_only_the_allowed_origin_may_read_answers(guarded: Service, origin: str | None) -> None:
    headers = {} if origin is None else {"Origin": origin}
    expected = origin if origin == ALLOWED_ORIGIN else None
    task = guarded.finished(guarded.create("Hi", max_output_tokens=2)["id"])["id"]
    streamed = {**headers, "Accept": "text/event-stream"}
    answers = [
        guarded.request("GET", "/v1/models", headers=headers),
        guarded.request("GET", f"/v1/tasks/{task}/events", headers=streamed),
        guarded.request("POST", "/v1/responses", headers=headers, json=body(stream=True)),
        guarded.request("POST", "/v1/responses", headers=headers, json=body()),
    ]
    assert [answer.status_code for answer in answers] == [200] * 4
    refused = [
        guarded.request("GET", "/v1/tasks/task_x/events", headers=streamed),
        guarded.request("POST", "/v1/tasks", headers=headers, content=b"x" * ((1 << 20) + 1)),
        guarded.request("GET", "/v1/models", headers={**headers, "Authorization": "Bearer wrong"}),
    ]
    assert [answer.status_code for answer in refused] == [404, 413, 401]
    for answer in answers + refused[::2]:
        assert answer.headers.get("access-control-allow-origin") == expected
        assert "access-control-allow-credentials" not in answer.headers


def test_the_admin_and_its_files_are_open_to_no_other_origin(guarded: Service) -> None:
    for path in ("/admin/", "/admin/login/", "/static/admin/css/base.css"):
        answer = guarded.request("GET", path, headers={"Origin": ALLOWED_ORIGIN})
        assert answer.status_code in (200, 302)
        assert not cors(answer)
        assert guarded.request("OPTIONS", path, headers={"Origin": ALLOWED_ORIGIN, **WANTED}).status_code == 403


def test_without_the_setting_no_origin_is_allowed(service: Service) -> None:
    answer = service.request("GET", "/v1/models", headers={"Origin": ALLOWED_ORIGIN})
    assert answer.status_code == 200
    assert not cors(answer)
    assert service.request("OPTIONS", "/v1/tasks", headers={"Origin": ALLOWED_ORIGIN, **WANTED}).status_code == 403


@pytest.mark.parametrize("origin", FOREIGN, ids=range(len(FOREIGN)))
def test_a_socket_of_another_origin_is_told_why_before_its_handshake(guarded: Service, origin: str) -> None:
    token = f"Authorization: Bearer {guarded.token}"
    answer = ask(guarded, upgrade("/v1/events", token, f"Origin: {origin}"))
    assert (answer.status, answer.code) == (403, "origin_not_allowed")


def test_a_socket_of_the_allowed_origin_is_opened(guarded: Service) -> None:
    for origin in (ALLOWED_ORIGIN, "http://127.0.0.1"):
        assert ask(guarded, upgrade("/v1/events", f"Origin: {origin}")).status == 101
    # Of two, none may be another's.
    both = upgrade("/v1/events", f"Origin: {ALLOWED_ORIGIN}", "Origin: https://evil.example")
    assert ask(guarded, both).status in (400, 403)
