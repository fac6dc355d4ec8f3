"""WS /v1/responses: responses one after the other over one websocket, as Open Responses has it."""

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.conf import settings

from clients_app.models import Client
from lmsp_site.database_threads import writes
from lmsp_site.errors import InvalidRequest, NotFound, ProtocolError, to_protocol
from lmsp_site.ids import new_suffix
from models_app import catalog
from tasks_app import conversation, inputs, items, responses, serializers, streaming, submission
from tasks_app.event_log import Entry, encode
from tasks_app.items import Item
from tasks_app.models import Response, Task
from tasks_app.sockets import Socket, read_frame
from tasks_app.states import EventType, Status

_REMEMBERED = (EventType.COMPLETED, EventType.INCOMPLETE)


class _Busy(ProtocolError):
    """One response at a time."""

    status = 409
    code = "response_in_progress"


@dataclass(frozen=True, slots=True)
class _Conversation:
    """The last response of a connection and all that was said until its end, stored or not."""

    response_id: str
    said: list[Item]


@dataclass(frozen=True, slots=True)
class _Turn:
    """A request that was accepted, or warmed up, and what was said before its answer."""

    task: Task
    said: list[Item]
    generate: bool


class ResponsesConsumer(Socket):
    """Answers each ``response.create`` with the events of its response.

    The last response is remembered for as long as the connection lasts, so that the next can go on from it though it
    was not stored. A client that goes away takes the response that runs along, as one of POST /v1/responses does.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._running: asyncio.Task[None] | None = None
        self._awaits_end = False
        self._last: _Conversation | None = None

    async def opened(self) -> None:
        """Begin to count the minutes."""
        self.begin(self._expire())

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Take an event of the client."""
        try:
            await self._take(await read_frame(text_data))
        except Exception as error:  # noqa: BLE001 - the outermost frame of this message
            await self.send_error(to_protocol(error))

    async def _take(self, body: dict[str, Any]) -> None:
        if (kind := body.pop("type", None)) != "response.create":
            raise InvalidRequest(f"This socket takes response.create, not {kind!r:.60}.", param="type")
        if self._awaits_end:
            raise _Busy("A response is in progress on this socket. Wait for its end, or open another socket.")
        if self._running:
            # The caller has seen its end already.
            await asyncio.wait({self._running})
        self._awaits_end = True
        self._running = self.begin(self._respond(body))

    async def _expire(self) -> None:
        await asyncio.sleep(settings.LMSP.socket_minutes * 60)
        if self._running:
            await asyncio.wait({self._running})
        await self.refuse(
            InvalidRequest(
                f"A socket lasts {settings.LMSP.socket_minutes:g} minutes. Open a new one.",
                code="websocket_connection_limit_reached",
            )
        )

    async def _respond(self, body: dict[str, Any]) -> None:
        previous = body.get("previous_response_id")
        accepting = asyncio.ensure_future(writes.run(self._accept, body))
        try:
            turn = await asyncio.shield(accepting)
            await (self._follow(turn) if turn.generate else self._warm_up(turn))
        except asyncio.CancelledError:
            # It may have been accepted in the same moment.
            if (turn := await accepting).generate:
                await streaming.leave(turn.task)
            raise
        except Exception as error:  # noqa: BLE001 - the socket outlives a request that is refused
            if self._last and self._last.response_id == previous:
                self._last = None
            self._awaits_end = False
            await self.send_error(_as_told_here(to_protocol(error), previous))
        finally:
            self._awaits_end = False

    def _accept(self, body: dict[str, Any]) -> _Turn:
        # The token may have been revoked since.
        self.client = self.authorize()
        previous, generate = body.get("previous_response_id"), _read_envelope(body)
        said_before = self._last.said if self._last and self._last.response_id == previous else None
        fields = serializers.read(serializers.ResponseRequest, body)
        if not generate:
            return _never_run(self.client, fields, conversation.resolve(self.client, fields, said_before))
        accepted = submission.submit(
            self.client, fields, foreground=True, key=None, answer=streaming.at_birth, said_before=said_before
        )
        assert accepted.task is not None, "a request without a key is a new one"
        return _Turn(accepted.task, inputs.of(accepted.task.id), generate=True)

    async def _follow(self, turn: _Turn) -> None:
        async with aclosing(streaming.response_entries(turn.task.id)) as entries:
            async for entry in entries:
                if entry is None:
                    continue  # Daphne sends pings.
                if entry.is_terminal:
                    self._remember(turn, entry)
                    self._awaits_end = False
                await self.send(text_data=entry.to_json())
        if self._awaits_end:
            raise NotFound("The response was deleted before its end.", code="response_not_found")
        await streaming.read_away(turn.task)

    async def _warm_up(self, turn: _Turn) -> None:
        body = responses.build(responses.Subject.of(turn.task))
        body["lmsp"]["task_id"] = None
        self._last = _Conversation(body["id"], turn.said)
        self._awaits_end = False
        for number, kind in enumerate((EventType.CREATED, EventType.COMPLETED)):
            await self.send(text_data=Entry(number, kind, encode({"response": body})).to_json())

    def _remember(self, turn: _Turn, end: Entry) -> None:
        self._last = None
        if end.type in _REMEMBERED:
            response = end.fields()["response"]
            self._last = _Conversation(response["id"], [*turn.said, *response["output"]])


def _read_envelope(body: dict[str, Any]) -> bool:
    """Take what is said of the transport out of a request; return whether something is to be generated."""
    if body.pop("background", None):
        raise InvalidRequest("A socket's responses do not run in the background.", param="background")
    if body.pop("stream", None) is False:
        raise InvalidRequest("A socket's responses are always streamed.", param="stream")
    if body.pop("stream_id", None) is not None:
        raise InvalidRequest("This service has one lane a socket: open another one.", param="stream_id")
    generate = body.pop("generate", None)
    if generate not in (None, True, False):
        raise InvalidRequest("generate must be true or false.", param="generate")
    return generate is not False


def _never_run(client: Client, fields: dict[str, Any], said: list[Item]) -> _Turn:
    """Return the turn of a finished task that is nowhere stored: a warm-up's, after the checks of a request."""
    model = catalog.find(fields["model"])
    turn = conversation.turn(model, fields, said)
    suffix, now = new_suffix(), datetime.now(UTC)
    task = Task(
        id=f"task_{suffix}",
        client=client,
        status=Status.COMPLETED,
        model=model.id,
        metadata=fields["metadata"] or {},
        input_tokens=len(turn.prompt),
        created_at=now,
        finished_at=now,
    )
    request = submission.with_defaults(fields, model, background=False)
    Response(id=f"resp_{suffix}", task=task, request=request, store=False)
    return _Turn(task, items.named(turn.items, task.id), generate=False)


def _as_told_here(error: ProtocolError, previous: Any) -> ProtocolError:
    """Give a previous response that is not known the code by which the clients of this mode know it."""
    if previous is not None and (error.code == "response_not_found" or error.param == "previous_response_id"):
        return InvalidRequest(
            f"Previous response {previous!r:.60} is not known here. Send the whole input.",
            code="previous_response_not_found",
            param="previous_response_id",
        )
    return error
