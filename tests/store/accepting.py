"""Accepts requests in processes that are killed on the way: reads one from each line of stdin, answers on stdout.

A line is JSON: ``path``, ``token``, ``key``, ``body`` and ``killed_at``, the statement before which the process that
accepts it kills itself, counted from the first one of the request (0: none, -1: when only the answer is missing). The
answer is the HTTP status, headers and text, or ``null`` of a process that was killed. Started with the fields of the
model that the requests name; needs no service.
"""

import asyncio
import json
import os
import signal
import sys
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "lmsp_site.settings")
django.setup()

import httpx
from django.conf import settings
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from lmsp_site.asgi import application
from models_app import tokenizers
from models_app.models import LanguageModel


def main() -> None:
    """Serve until stdin ends."""
    # Opened once: the processes that are forked here have it. There must be no connection before they are.
    tokenizers.of(LanguageModel(**json.loads(sys.argv[1])))
    print("ready", flush=True)
    for line in sys.stdin:
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            os.write(writer, json.dumps(asyncio.run(_accept(**json.loads(line)))).encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as answer:
            said = answer.read()
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        assert killed or status == 0, status
        print(said.decode() if said else "null", flush=True)


async def _accept(path: str, token: str, key: str, body: dict[str, Any], killed_at: int) -> list[Any]:
    left = killed_at

    def count(_statement: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(connection: BaseDatabaseWrapper, **_: Any) -> None:
        # SQLite's own word, since COMMIT passes Django's hooks by.
        connection.connection.set_trace_callback(count)

    connection_created.connect(watch)
    # Its type of a scope is a wider one.
    transport = httpx.ASGITransport(application)  # type: ignore[arg-type]
    headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": key}
    async with httpx.AsyncClient(transport=transport, base_url=f"http://127.0.0.1:{settings.LMSP.port}") as http:
        answer = await http.post(path, json=body, headers=headers)
    if killed_at < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return [answer.status_code, dict(answer.headers), answer.text]


if __name__ == "__main__":
    main()
