"""The line itself: it hears everything that comes over it, and what is wrong does not pass."""

from collections.abc import Iterator

import httpx
import pytest
from pydantic import ValidationError
from websockets.sync.client import connect

from tests.api.bodies import STORY, body
from tests.clients.line import Line, answers
from tests.conformance import open_responses
from tests.service import Service
from tests.stream import sse


@pytest.fixture
def over(line: Line, service: Service) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {service.token}"}
    with httpx.Client(base_url=line.url, headers=headers, timeout=60, verify=False) as http:
        yield http


def test_each_answer_of_a_connection_is_heard(over: httpx.Client, line: Line) -> None:
    response = over.post("/v1/responses", json=body()).json()
    events = sse.events(sse.read(over, f"/v1/responses/{response['id']}", params={"stream": "true"}))
    over.get("/v1/responses/resp_unknown")
    seen = line.check()
    assert (seen["response"], seen["error"]) == (1, 1)
    assert sum(seen.values()) == len(events) + 2
    assert not line.check()


def test_what_a_socket_says_is_heard(line: Line, service: Service) -> None:
    headers = {"Authorization": f"Bearer {service.token}"}
    address = f"ws{line.url.removeprefix('http')}/v1/responses"
    with connect(address, additional_headers=headers, compression=None) as opened:
        opened.send("[]")
        opened.recv(timeout=60)
    assert line.check() == {"error": 1}


def test_a_cut_reaches_the_client_in_the_middle_of_an_answer(over: httpx.Client, line: Line) -> None:
    request = body(STORY, background=True, stream=True, max_output_tokens=100)
    with sse.stream(over, "/v1/responses", method="POST", json=request) as frames:
        next(frames)
        line.cut()
        with pytest.raises(httpx.TransportError):
            list(frames)


@pytest.mark.parametrize(
    "sent", [b'{"object": "response", "id": "resp_1"}', b'{"type": "error", "sequence_number": 0}']
)
def test_what_is_wrong_does_not_pass(sent: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    for answer in answers((head % len(sent) + sent) * 2):
        ((status, part),) = answer.parts()
        with pytest.raises((ValidationError, KeyError)):
            open_responses.check(status, part)
