"""WS /admin/live/…: what pages of the admin show as it changes, for people who are signed in and may see it."""

import asyncio
import time
from contextlib import aclosing
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.auth.models import AnonymousUser, User
from django.contrib.sessions.backends.db import SessionStore
from django.http import HttpRequest, parse_cookie

from lmsp_site.asgi_http import header, nonnegative, query
from lmsp_site.database_threads import reads
from lmsp_site.errors import Forbidden, InvalidRequest, NotFound, to_protocol
from lmsp_site.origins import is_own_page
from models_app import standing
from tasks_app import lookup, statistics
from tasks_app.board.permission import may_watch
from tasks_app.board.watching import board, looks
from tasks_app.console import figures, listing
from tasks_app.models import Task
from tasks_app.sockets import NORMAL, Socket
from tasks_app.states import FINISHED
from tasks_app.stream import tail

_ASK_AGAIN_SECONDS = 3.0
_LOOK_SECONDS = 1.0
_MOST_ROWS = 200
# Whoever stands behind so many is told that, and not counted.
_FARTHEST = 100


class StaffSocket(Socket):
    """A socket of one of our own pages, let in by the session's cookie for as long as the session may have it."""

    async def connect(self) -> None:
        """Accept the socket, and refuse in a frame whom it is not for."""
        await self.accept()
        try:
            await reads.run(self._admit)
            self.begin(self._end_when_signed_out())
            await self.opened()
        except Exception as error:  # noqa: BLE001 - the outermost frame of the handshake
            await self.refuse(to_protocol(error))

    def _admit(self) -> None:
        """Find out who this is; on a thread that may use the database.

        Raises:
            Forbidden: not from one of our pages, or not signed in as somebody who may see tasks.
        """
        # A page of another site could open this socket, and the browser might send the cookie along.
        if not is_own_page(self.scope["headers"]):
            raise Forbidden("This socket is for the service's own pages.", code="origin_not_allowed")
        if not may_watch(user_of(header(self.scope, b"cookie") or "")):
            raise Forbidden("Sign in to the admin, as somebody who may see tasks.", code="not_signed_in")

    async def _end_when_signed_out(self) -> None:
        while True:
            await asyncio.sleep(_ASK_AGAIN_SECONDS)
            await reads.run(self._admit)


def user_of(cookies: str) -> User | AnonymousUser:
    """Return the person whose session a ``Cookie`` header names."""
    request = HttpRequest()
    request.session = SessionStore(parse_cookie(cookies).get(settings.SESSION_COOKIE_NAME))
    user: User | AnonymousUser = get_user(request)
    return user


class DashboardSocket(StaffSocket):
    """Sends the frames ``present``, ``standing`` and ``plots``, each whenever it has changed."""

    async def opened(self) -> None:
        """Begin."""
        self.begin(self._show())

    async def _show(self) -> None:
        shown: dict[str, int] = {}
        with board.open() as changed:
            while True:
                await changed.wait()
                changed.clear()
                for name, frame in list(board.frames.items()):
                    if shown.get(name) != frame["number"]:
                        shown[name] = frame["number"]
                        await self.send_object(frame)


class TaskSocket(StaffSocket):
    """Sends a task's events after ``?after=N`` as ``{"event": …}``, and between them ``{"task": …}``."""

    async def opened(self) -> None:
        """Begin, unless there is no such task."""
        task_id = self.scope["url_route"]["kwargs"]["task_id"]
        if not await reads.run(Task.objects.filter(pk=task_id).exists):
            raise NotFound(f"There is no task {task_id!r}.", code="task_not_found")
        after = query(self.scope).get("after")
        self.begin(self._follow(task_id, -1 if after is None else nonnegative(after, "after")))

    async def _follow(self, task_id: str, after: int) -> None:
        shown = 0.0
        async with aclosing(tail.follow(task_id, after, heartbeat=_LOOK_SECONDS)) as pages:
            async for page in pages:
                for entry in page:
                    await self.send(text_data=f'{{"event":{entry.to_json()}}}')
                # Not after each token: a look at the task costs more than the token.
                if time.monotonic() - shown > _LOOK_SECONDS / 2:
                    await self._send_task(task_id)
                    shown = time.monotonic()
        await self._send_task(task_id)
        await self.close(NORMAL)

    async def _send_task(self, task_id: str) -> None:
        for row in await reads.run(rows, [task_id]):
            await self.send_object({"task": row})


class TaskRowsSocket(StaffSocket):
    """Sends ``{"rows": […]}`` for the tasks named by ``?ids=a,b``, once a second those that have changed.

    With ``newest=ID`` also ``{"newer": N}``: how many tasks have come after that one, counted up to 100.
    """

    async def opened(self) -> None:
        """Begin."""
        ids = [name for name in query(self.scope).get("ids", "").split(",") if name]
        if not 0 < len(ids) <= _MOST_ROWS:
            raise InvalidRequest(f"ids must name 1 to {_MOST_ROWS} tasks.", param="ids")
        self.begin(self._show(ids, query(self.scope).get("newest", "")))

    async def _show(self, ids: list[str], newest: str) -> None:
        shown: dict[str, dict[str, Any]] = {}
        told = 0
        while ids or newest:
            found = {row["id"]: row for row in await reads.run(rows, ids)}
            if changed := [row for task_id, row in found.items() if shown.get(task_id) != row]:
                await self.send_object({"rows": changed})
            shown |= found
            ids = [task_id for task_id in ids if task_id in found and found[task_id]["status"] not in FINISHED]
            if newest and (count := await reads.run(_newer, newest)) != told:
                told = count
                await self.send_object({"newer": count})
            await asyncio.sleep(_LOOK_SECONDS)
        # The tasks shown will not change any more; the page stays as it is.
        await self.close(NORMAL)


class ModelsSocket(StaffSocket):
    """Sends ``{"models": […]}`` for all models, once a second those that have changed."""

    async def opened(self) -> None:
        """Begin."""
        self.begin(self._show())

    async def _show(self) -> None:
        shown: dict[str, dict[str, Any]] = {}
        while True:
            found = {row["id"]: row for row in await looks.run(lambda: standing.rows(statistics.speeds()))}
            if changed := [row for model_id, row in found.items() if shown.get(model_id) != row]:
                await self.send_object({"models": changed})
            shown = found
            await asyncio.sleep(_LOOK_SECONDS)


def _newer(newest: str) -> int:
    return int(Task.objects.kept().filter(pk__gt=newest)[:_FARTHEST].count())


def rows(ids: list[str]) -> list[dict[str, Any]]:
    """Return what a list shows of tasks as they change."""
    tasks = list(Task.objects.filter(pk__in=ids))
    return [
        {
            "id": task.id,
            "status": task.status,
            "attempt": task.attempt,
            "output_tokens": task.output_tokens,
            "last_sequence_number": task.last_sequence_number,
            "note": listing.note(task, lookup.position(task, _FARTHEST)),
            "took": figures.span(figures.since(task.started_at, task.finished_at)),
        }
        for task in tasks
    ]
