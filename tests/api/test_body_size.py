"""How large a body may be."""

import json
from collections.abc import Iterator
from socket import create_connection

import httpx
import pytest

from tests.api.bodies import CHAT, CREATING, body, chat, error
from tests.service import Service

LIMIT = 16 << 20
JSON = {"Content-Type": "application/json"}
pytestmark = pytest.mark.usefixtures("nothing_stored")


def padded(size: int, path: str = "") -> bytes:
    """Return a request of exactly `size` bytes that is refused for its length in tokens, if it is read at all."""
    request = json.dumps((chat if path == CHAT else body)(model="unknown")).encode()
    return request + b" " * (size - len(request))


@pytest.mark.parametrize("path", [*CREATING, CHAT])
def test_the_limit_itself_is_allowed_and_one_byte_more_is_413(http: httpx.Client, path: str) -> None:
    assert error(http.post(path, content=padded(LIMIT, path), headers=JSON), 404)["code"] == "model_not_found"
    found = error(http.post(path, content=padded(LIMIT + 1, path), headers=JSON), 413)
    assert found["code"] == "payload_too_large"
    assert str(LIMIT) in found["message"]


@pytest.mark.parametrize("path", [*CREATING, CHAT, "/v1/tasks/task_x/cancel", "/admin/login/", "/nothing"])
def test_a_body_that_comes_in_chunks_has_the_same_limit(http: httpx.Client, path: str) -> None:
    def chunks() -> Iterator[bytes]:
        whole = padded(LIMIT + 1)
        for start in range(0, len(whole), 1 << 20):
            yield whole[start : start + (1 << 20)]

    assert error(http.post(path, content=chunks(), headers=JSON), 413)["code"] == "payload_too_large"


@pytest.mark.parametrize("path", CREATING)
@pytest.mark.parametrize("length", ["-1", "x", "\xb2", "1e3", ""])
def test_a_length_that_is_none_is_refused(service: Service, path: str, length: str) -> None:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {service.token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    )
    with create_connection(("127.0.0.1", service.port), timeout=30) as plain:
        plain.sendall(head.encode("latin-1") + b"{}")
        assert plain.recv(12) == b"HTTP/1.1 400"
