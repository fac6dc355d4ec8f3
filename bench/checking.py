"""What it costs to check a credential: the same call with and without the check, in a process of its own.

Run by ``in_django`` on the data directory of a service that runs. Everything but the web server itself is between the
call and its answer: the ASGI layers, Django's handler, the view, the database.
"""

import asyncio
import json
import time
from typing import Any

from django.conf import settings
from django.urls import path

from lmsp_site.urls import urlpatterns as _of_the_service
from models_app.views import ModelList

_PATH, _OPEN = "/v1/models", "/unchecked/v1/models"
_WARM_UP = 200


class _Unchecked(ModelList):
    """The list of models for everybody."""

    authentication_classes = []
    permission_classes = []


urlpatterns = [path(_OPEN.removeprefix("/"), _Unchecked.as_view()), *_of_the_service]


def measure(token: str, rounds: int, calls: int) -> None:
    """Print the processor time of a call in microseconds, both ways, once a round."""
    settings.ROOT_URLCONF = __name__
    from lmsp_site.asgi import guarded

    async def cost(path: str, calls: int) -> float:
        before = time.process_time()
        for _ in range(calls):
            await _ask(guarded, path, token)
        return 1e6 * (time.process_time() - before) / calls

    async def all_rounds() -> dict[str, list[float]]:
        found: dict[str, list[float]] = {_PATH: [], _OPEN: []}
        for address in found:
            await cost(address, _WARM_UP)
        for each in range(rounds):
            for address in list(found)[:: 1 if each % 2 else -1]:
                found[address].append(await cost(address, calls))
        return found

    found = asyncio.run(all_rounds())
    print(json.dumps({"checked": found[_PATH], "unchecked": found[_OPEN]}))


async def _ask(app: Any, path: str, token: str) -> None:
    # As Daphne makes it, with the headers of a usual client.
    headers = [
        (b"host", b"127.0.0.1"),
        (b"accept", b"*/*"),
        (b"accept-encoding", b"gzip, deflate"),
        (b"user-agent", b"bench"),
        (b"authorization", f"Bearer {token}".encode()),
    ]
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": headers,
        "client": ["127.0.0.1", 1],
        "server": ["127.0.0.1", settings.LMSP.port],
    }
    statuses: list[int] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    await app(scope, receive, send)
    assert statuses == [200], statuses
