"""How a request arrives: how long its head and body may be, how many headers it has, and how long it takes."""

import json
import socket
import time
from collections.abc import Iterator

import pytest

from tests.api.bodies import body
from tests.security.arranged import MOST_BYTES, MOST_HEADERS, PATIENCE_SECONDS
from tests.security.plain import Answer, ask, connect, head, read, upgrade
from tests.service import Service

PATHS = ("/v1/tasks", "/v1/responses", "/admin/login/", "/nothing")


def drip(service: Service, start: bytes, pieces: Iterator[bytes], pause: float) -> tuple[Answer, bytes, float]:
    """Send one piece after the other until there is an answer; return it, what follows it, and the seconds it took."""
    began = time.monotonic()
    with connect(service) as connection:
        connection.sendall(start)
        connection.settimeout(pause)
        for piece in pieces:
            connection.sendall(piece)
            try:
                connection.recv(1, socket.MSG_PEEK)
            except TimeoutError:
                continue
            break
        connection.settimeout(30)
        answer, took = read(connection), time.monotonic() - began
        # An answer that ends the connection is followed by its end, a moment later.
        rest = connection.recv(1) if answer.headers.get("connection") == "close" else b""
    return answer, rest, took


def byte_by_byte() -> Iterator[bytes]:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        yield b"x"


@pytest.mark.parametrize("path", ["/v1/tasks", "/admin/login/"])
def test_a_body_that_comes_too_slowly_is_answered_408_and_the_connection_closed(guarded: Service, path: str) -> None:
    start = head("POST", path, "Content-Type: application/json", "Content-Length: 100000")
    answer, rest, took = drip(guarded, start, byte_by_byte(), 0.1)
    assert (answer.status, answer.code, rest) == (408, "request_timeout", b"")
    assert PATIENCE_SECONDS <= took < PATIENCE_SECONDS + 5


def test_a_body_that_does_not_come_at_all_is_answered_408(guarded: Service) -> None:
    start = head("POST", "/v1/tasks", "Transfer-Encoding: chunked")
    answer, rest, _ = drip(guarded, start, iter([b"5\r\nhel"]), 0.1)
    assert (answer.status, answer.code, rest) == (408, "request_timeout", b"")


def test_a_head_that_comes_too_slowly_is_answered_408(guarded: Service) -> None:
    answer, rest, _ = drip(guarded, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ", byte_by_byte(), 0.1)
    assert (answer.status, answer.code, rest) == (408, "request_timeout", b"")


def test_a_long_body_has_the_time_that_its_length_takes(guarded: Service) -> None:
    request = json.dumps(body(model="unknown")).encode()
    pieces = [request, *[b" " * (16 << 10)] * 5]
    start = head(
        "POST",
        "/v1/tasks",
        *(f"Authorization: Bearer {guarded.token}", "Content-Type: application/json"),
        f"Content-Length: {sum(map(len, pieces))}",
    )
    answer, _, took = drip(guarded, start, iter(pieces), PATIENCE_SECONDS / 4)
    assert (answer.status, answer.code) == (404, "model_not_found")
    assert took > PATIENCE_SECONDS


def test_a_connection_may_rest_between_requests(guarded: Service) -> None:
    with connect(guarded) as connection:
        connection.sendall(head("GET", "/healthz"))
        assert read(connection).status == 200
        connection.settimeout(PATIENCE_SECONDS + 0.5)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        connection.settimeout(30)
        connection.sendall(head("GET", "/healthz"))
        assert read(connection).status == 200


def test_two_requests_at_once_are_answered_one_after_the_other(guarded: Service) -> None:
    with connect(guarded) as connection:
        connection.sendall(head("GET", "/healthz") * 2)
        assert [read(connection).status, read(connection).status] == [200, 200]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("expect", [[], ["Expect: 100-continue"]])
def test_a_body_that_is_announced_too_long_is_refused_before_it_comes(
    guarded: Service, path: str, expect: list[str]
) -> None:
    answer = ask(guarded, head("POST", path, f"Content-Length: {10**12}", *expect))
    assert (answer.status, answer.code) == (413, "payload_too_large")
    assert str(MOST_BYTES) in answer.body.decode()


@pytest.mark.parametrize("path", PATHS)
def test_a_body_without_end_is_refused_when_it_is_too_long(guarded: Service, path: str) -> None:
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    sent = 0

    def chunks() -> Iterator[bytes]:
        nonlocal sent
        while sent < 64 * len(chunk):
            sent += len(chunk)
            yield chunk

    answer, _, _ = drip(guarded, head("POST", path, "Transfer-Encoding: chunked"), chunks(), 0.02)
    assert (answer.status, answer.code) == (413, "payload_too_large")
    assert sent < 3 * MOST_BYTES


def test_as_many_headers_as_there_may_be_are_taken_and_no_more(guarded: Service) -> None:
    def many(count: int) -> bytes:
        return head("GET", "/healthz", *(f"X-{number}: x" for number in range(count - 1)))

    assert ask(guarded, many(MOST_HEADERS)).status == 200
    answer = ask(guarded, many(MOST_HEADERS + 1))
    assert (answer.status, answer.code) == (431, "headers_too_large")
    assert f"{MOST_HEADERS} headers" in answer.body.decode()


@pytest.mark.parametrize("name", ["X-Long", "Cookie", "Authorization"])
def test_headers_that_are_too_long_are_refused(guarded: Service, name: str) -> None:
    half = [f"{name}-{number}: {'x' * 6000}" for number in range(2)]
    assert ask(guarded, head("GET", "/healthz", *half)).status == 200
    for lines in ([*half, f"{name}: {'x' * 6000}"], [f"{name}: {'x' * 20000}"]):
        answer = ask(guarded, head("GET", "/healthz", *lines))
        assert (answer.status, answer.code) == (431, "headers_too_large")


def test_an_address_that_is_too_long_is_refused(guarded: Service) -> None:
    answer = ask(guarded, head("GET", f"/healthz?{'x' * 20000}"))
    assert (answer.status, answer.code) == (431, "headers_too_large")


@pytest.mark.parametrize(
    "request_",
    [
        b"nonsense\r\n\r\n",
        head("GET", "/healthz", "no colon"),
        head("POST", "/v1/tasks", "Content-Length: -1"),
        head("POST", "/v1/tasks", "Content-Length: 2", "Content-Length: 3"),
        head("POST", "/v1/tasks", "Content-Length: 2", "Transfer-Encoding: chunked"),
        head("POST", "/v1/tasks", "Transfer-Encoding: chunked") + b"zz\r\n",
        head("GET", "/healthz", "A\x0bB: c"),
        head("GET", "/healthz\xff"),
        upgrade("/v1/events", "Sec-WebSocket-Protocol: lmsp.v1\xff"),
    ],
)
def test_what_is_no_http_is_refused_in_the_envelope(guarded: Service, request_: bytes) -> None:
    answer = ask(guarded, request_)
    assert (answer.status, answer.code) == (400, "invalid_http")


def test_a_form_of_very_many_fields_is_not_read(guarded: Service) -> None:
    form = b"a=&" * (MOST_BYTES // 3)
    login = guarded.request("GET", "/admin/login/")
    answer = guarded.request(
        "POST",
        "/admin/login/",
        content=form,
        headers={"Content-Type": "application/x-www-form-urlencoded", "Cookie": login.headers["set-cookie"]},
    )
    assert answer.status_code in (400, 403)


def test_a_body_that_is_nested_too_deeply_is_refused(guarded: Service) -> None:
    for depth in (65, MOST_BYTES // 4):
        nested = b'{"model": ' + b"[" * depth + b"]" * depth + b"}"
        answer = guarded.request("POST", "/v1/tasks", content=nested, headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_json")
        assert "64" in answer.json()["error"]["message"]
