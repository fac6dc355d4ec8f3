"""The admin's websockets: for its own pages and people who are signed in, for as long as they are."""

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.console.conftest import PASSWORD
from tests.service import Service

pytestmark = pytest.mark.usefixtures("people")
DASHBOARD = "/admin/live/dashboard"


@pytest.fixture
def signed_in(service: Service) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.url, timeout=60, verify=False, follow_redirects=True) as browser:
        browser.get("/admin/login/")
        fields = {"username": "observer", "password": PASSWORD, "csrfmiddlewaretoken": browser.cookies["csrftoken"]}
        browser.post("/admin/login/?next=/admin/", data=fields, headers={"Referer": service.url})
        assert "sessionid" in browser.cookies
        yield browser


def open_socket(
    service: Service, path: str, browser: httpx.Client | None, origin: str | None = "own"
) -> ClientConnection:
    headers = {"Cookie": f"sessionid={browser.cookies['sessionid']}"} if browser else {}
    if origin is not None:
        headers["Origin"] = service.url if origin == "own" else origin
    return connect(f"ws://127.0.0.1:{service.port}{path}", additional_headers=headers, open_timeout=30)


def rest(opened: ClientConnection) -> tuple[list[dict[str, Any]], int]:
    """Return what else a socket sends until it is closed, and the code it is closed with."""
    told: list[dict[str, Any]] = []
    deadline = time.monotonic() + 60
    while True:
        assert time.monotonic() < deadline, "the socket stays open"
        try:
            told.append(json.loads(opened.recv(60)))
        except ConnectionClosed as closed:
            return told, closed.rcvd.code if closed.rcvd else 0


def refusal(opening: ClientConnection) -> tuple[str, int]:
    """Return the error that a socket is closed with, and the code."""
    with opening as opened:
        told, code = rest(opened)
    return told[-1]["error"]["code"], code


def test_nobody_else_gets_in(service: Service, signed_in: httpx.Client) -> None:
    for path in (DASHBOARD, "/admin/live/models", "/admin/live/tasks?ids=task_x", "/admin/live/tasks/task_x"):
        assert refusal(open_socket(service, path, None)) == ("not_signed_in", 4403)
        # What is no page sends no origin, and a page of elsewhere another.
        assert refusal(open_socket(service, path, signed_in, None)) == ("origin_not_allowed", 4403)
    with pytest.raises(Exception, match="HTTP 403"):
        open_socket(service, DASHBOARD, signed_in, "https://evil.example")
    bearer = {"Authorization": f"Bearer {service.token}", "Origin": service.url}
    opened = connect(f"ws://127.0.0.1:{service.port}{DASHBOARD}", additional_headers=bearer, open_timeout=30)
    assert refusal(opened) == ("not_signed_in", 4403)


def test_the_dashboard_tells_all_its_parts(service: Service, signed_in: httpx.Client) -> None:
    frames: dict[str, Any] = {}
    with open_socket(service, DASHBOARD, signed_in) as opened:
        while frames.keys() < {"present", "standing", "plots"}:
            frame = json.loads(opened.recv(30))
            frames[frame["type"]] = frame
    assert frames["standing"]["ready"] == {"database": None, "runner": None, "disk": None}
    assert frames["standing"]["workers"] == frames["standing"]["workers_configured"] == 4
    assert set(frames["present"]["queue"]) >= {"interactive", "normal", "batch"}
    assert frames["plots"].keys() >= {"hour", "day", "failures"}


def test_it_ends_when_the_person_signs_out(service: Service, signed_in: httpx.Client) -> None:
    form = {"csrfmiddlewaretoken": signed_in.cookies["csrftoken"]}
    with open_socket(service, DASHBOARD, signed_in) as opened:
        assert json.loads(opened.recv(30))["type"] == "present"
        signed_in.post("/admin/logout/", data=form, headers={"Referer": service.url})
        told, code = rest(opened)
    assert (told[-1]["error"]["code"], code) == ("not_signed_in", 4403)


def test_a_task_is_followed_from_any_event_to_its_end(service: Service, signed_in: httpx.Client) -> None:
    task = service.create("Say hello.", max_output_tokens=8)
    with open_socket(service, f"/admin/live/tasks/{task['id']}?after=0", signed_in) as opened:
        told, code = rest(opened)
    numbers = [each["event"]["sequence_number"] for each in told if "event" in each]
    assert numbers == list(range(1, service.task(task["id"])["last_sequence_number"] + 1))
    assert [each["task"]["status"] for each in told if "task" in each][-1] == "completed"
    assert code == 1000
    assert refusal(open_socket(service, "/admin/live/tasks/task_x", signed_in)) == ("task_not_found", 4404)


def test_rows_are_told_until_none_of_them_can_change(service: Service, signed_in: httpx.Client) -> None:
    task = service.finished(service.create("Hi", max_output_tokens=2)["id"])
    with open_socket(service, f"/admin/live/tasks?ids={task['id']},task_x", signed_in) as opened:
        (row,) = json.loads(opened.recv(30))["rows"]
        assert (row["id"], row["status"], row["output_tokens"]) == (task["id"], "completed", 2)
        assert rest(opened) == ([], 1000)
    for ids in ("", ",".join(["x"] * 201)):
        assert refusal(open_socket(service, f"/admin/live/tasks?ids={ids}", signed_in))[1] == 4400
