"""A prompt that somebody waits for is begun while its task is stored."""

import itertools

from tests.api import engine
from tests.service import MODEL, Service, eventually

_STORY = "Tell me of the sea, of its islands and of the people who live there, and leave nothing out. " * 3
_numbers = itertools.count()


def _ask(service: Service, **fields: object) -> int:
    """Ask what was never asked, and return how many tokens of its prompt had been read when its request came."""
    before = engine.info(service)["announced_tokens_used"]
    body = {"model": MODEL, "input": f"{next(_numbers)} {_STORY}", "max_output_tokens": 2, **fields}
    answer = service.request("POST", "/v1/responses", json=body)
    service.finished(answer.json()["lmsp"]["task_id"])
    return int(engine.info(service)["announced_tokens_used"] - before)


def test_what_somebody_waits_for_is_announced(service: Service) -> None:
    service.finished(service.create(max_output_tokens=1)["id"])
    # It depends on who is faster: where the machine is busy, the request may come before the engine has begun.
    eventually(lambda: _ask(service) > 0, 60, "a prompt was begun before its request came")


def test_what_nobody_waits_for_is_not(service: Service) -> None:
    service.finished(service.create(max_output_tokens=1)["id"])
    assert [_ask(service, background=True) for _ in range(3)] == [0, 0, 0]
