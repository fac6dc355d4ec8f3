"""A caller that makes the same request again and again, one after the other."""

import http.client
import json
import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any

_TIMEOUT = 60.0


def times(
    address: tuple[str, int],
    path: str,
    headers: Mapping[str, str],
    samples: int,
    *,
    body: dict[str, Any] | None = None,
    status: int = http.client.OK,
) -> list[float]:
    """Return how many milliseconds each request took, its connection and the reading of its answer included.

    Args:
        address: of the service.
        path: what to ask for, its query included.
        headers: by which the caller is known.
        samples: how often.
        body: to be sent as JSON by POST; without one it is a GET.
        status: what the answer has to be.
    """
    taken = []
    content = None if body is None else json.dumps(body)
    sent = {**headers, "Content-Type": "application/json"} if body else headers
    for _ in range(samples):
        with closing(http.client.HTTPConnection(*address, timeout=_TIMEOUT)) as connection:
            began = time.perf_counter()
            connection.request("POST" if body else "GET", path, content, sent)
            answer = connection.getresponse()
            text = answer.read()
            taken.append((time.perf_counter() - began) * 1000)
            assert answer.status == status, (path, answer.status, text[:300])
    return taken
