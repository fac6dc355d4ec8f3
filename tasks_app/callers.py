"""Callers that wait or read a stream: served for as long as they stay, and as long as they may have it.

A credential is checked when a call begins. Of calls that stay open, one look a second asks for all of them whether they
would still be let in: so that it does not matter in which process, or by whom, a client was revoked, deleted, narrowed
or given another token, or that its time has come.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from clients_app import authentication
from clients_app.models import Client
from lmsp_site.asgi_http import CallerGone, Receive, Scope, Send, Withdrawn, send_stream, unless_gone
from lmsp_site.errors import ProtocolError
from tasks_app.stream import log_reads

logger = logging.getLogger(__name__)

LOOK_SECONDS = 1.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class _Open:
    """One call that stays open, by the token that it came with."""

    token_hash: str
    method: str
    path: str
    withdrawn: asyncio.Future[ProtocolError]


class Watch:
    """Looks after everything that is open in this process, by one query for all of it; idle while nothing is."""

    def __init__(self) -> None:
        self._open: set[_Open] = set()
        self._looking: asyncio.Task[None] | None = None

    @contextmanager
    def over(self, client: Client, method: str, path: str) -> Iterator[asyncio.Future[ProtocolError]]:
        """Yield a future that is set, while the body runs, when this call would be refused: to what it would be with.

        Args:
            client: as ``authenticate`` has returned it.
            method: see ``scopes.CALLS``.
            path: the address that is open.
        """
        loop = asyncio.get_running_loop()
        opened = _Open(client.presented_hash, method, path, loop.create_future())
        self._open.add(opened)
        if self._looking is None:
            self._looking = loop.create_task(self._look_now_and_then())
        try:
            yield opened.withdrawn
        finally:
            self._open.discard(opened)
            if not self._open and self._looking:
                self._looking.cancel()
                self._looking = None

    def held_by(self, client: Client) -> list[str]:
        """Return the addresses that a client has open in this process; any thread may ask."""
        hashes = {client.token_hash, client.previous_token_hash}
        return sorted(opened.path for opened in list(self._open) if opened.token_hash in hashes)

    async def _look_now_and_then(self) -> None:
        failing = False
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self._look()
            except Exception:
                # The database may be out of reach for a while. Nothing new can be read from it, either.
                if not failing:
                    logger.exception("cannot look after open streams")
                failing = True
            else:
                failing = False

    async def _look(self) -> None:
        looked_at = list(self._open)
        hashes = {opened.token_hash for opened in looked_at}
        admitted = await log_reads.run(Client.objects.admitted, hashes)
        for opened in looked_at:
            error = authentication.refusal(admitted.get(opened.token_hash), opened.method, opened.path)
            if error and not opened.withdrawn.done():
                logger.info("withdrawn", extra={"path": opened.path, "code": error.code})
                opened.withdrawn.set_result(error)


watch = Watch()


async def attended(client: Client, scope: Scope, receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Do `work` for a call of `client`, and cancel it when nobody is there any more who may have what it makes.

    Raises:
        CallerGone: the caller has hung up.
        Withdrawn: the call would be refused by now.
    """
    with watch.over(client, scope["method"], scope["path"]) as withdrawn:
        return await unless_gone(receive, withdrawn, work)


async def stream(
    client: Client,
    scope: Scope,
    receive: Receive,
    send: Send,
    frames: AsyncIterator[bytes],
    headers: dict[str, str] | None = None,
) -> None:
    """Answer with server-sent events; when they are withdrawn they end between two of them, without ``[DONE]``.

    Raises:
        CallerGone: the caller has hung up, or may have no more.
    """
    try:
        await attended(client, scope, receive, send_stream(send, frames, headers))
    except Withdrawn:
        await send({"type": "http.response.body", "body": b""})
        raise CallerGone from None
