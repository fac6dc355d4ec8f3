"""WS /v1/tasks/{id}/events: a task's log over a websocket, one event object per message."""

from contextlib import aclosing

from lmsp_site.asgi_http import nonnegative, query
from lmsp_site.database_threads import reads
from lmsp_site.errors import NotFound
from tasks_app import lookup
from tasks_app.models import Task
from tasks_app.sockets import NORMAL, Socket
from tasks_app.stream import tail


class NowhereConsumer(Socket):
    """Any other address."""

    async def connect(self) -> None:
        """Say that there is nothing here."""
        await self.accept()
        await self.refuse(NotFound(f"There is no websocket at {self.scope['path']}."))


class TaskEventsConsumer(Socket):
    """Replays the events after ``?after=N``, follows the task, and closes normally after the terminal event."""

    async def opened(self) -> None:
        """Begin, unless something is wrong with the request."""
        after = query(self.scope).get("after")
        task = await reads.run(self._find)
        self.begin(self._follow(task.id, -1 if after is None else nonnegative(after, "after")))

    def _find(self) -> Task:
        return lookup.task(self.client, self.scope["url_route"]["kwargs"]["task_id"])

    async def _follow(self, task_id: str, after: int) -> None:
        async with aclosing(tail.follow(task_id, after)) as pages:
            async for page in pages:
                for entry in page:
                    await self.send(text_data=entry.to_json())
        await self.close(NORMAL)
