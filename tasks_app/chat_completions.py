"""Responses as chat completions: whole, in chunks, or failed."""

from collections.abc import Iterator
from typing import Any

from lmsp_site.errors import Conflict, ProtocolError, ServerError
from tasks_app import responses
from tasks_app.event_log import Entry
from tasks_app.states import EventType

# What a client should not send again by itself: the deadline has passed for a second request too.
_FINAL = frozenset({"expired"})


class GenerationFailed(ServerError):
    """The generation has failed; the code is the task's own."""


def failure(response: dict[str, Any]) -> ProtocolError | None:
    """Return why there is no completion of a response that has ended; ``None`` where there is one.

    This API has no other way to say so than an error.
    """
    where = f"({response['lmsp']['task_id']})"
    if response["status"] == "cancelled":
        return Conflict(f"The generation was cancelled before its end {where}.", code="response_cancelled", retry=False)
    if error := response["error"]:
        headers = {"x-should-retry": "false"} if error["code"] in _FINAL else None
        return GenerationFailed(f"{error['message']} {where}", code=error["code"], headers=headers)
    return None


def completion(response: dict[str, Any]) -> dict[str, Any]:
    """Return the ``chat.completion`` of a response that has ended without a failure."""
    calls = _calls(response)
    message: dict[str, Any] = {
        "role": "assistant",
        # Beside calls the official API says nothing by null.
        "content": responses.output_text(response) or (None if calls else ""),
        "refusal": None,
        "annotations": [],
    }
    if calls:
        message["tool_calls"] = [_tool_call(call) for call in calls]
    logprobs = _said_of_tokens(responses.output_logprobs(response))
    choice = {"index": 0, "message": message, "logprobs": logprobs, "finish_reason": _finish_reason(response)}
    metadata = {"metadata": response["metadata"]} if response["metadata"] else {}
    head = _head(response, "chat.completion")
    return {**head, "choices": [choice], "usage": _usage(response), **metadata, "lmsp": response["lmsp"]}


class Chunks:
    """The chunks of one completion, from the log of its response; a log that is read again gives the same ones."""

    def __init__(self, *, with_usage: bool) -> None:
        self._head: dict[str, Any] = {}
        self._with_usage = with_usage
        self._sent = 0
        self._places: dict[int, int] = {}  # Of calls: their index among the items, and among the calls.
        self._logprobs_sent = 0

    def of(self, entry: Entry) -> Iterator[dict[str, Any]]:
        """Yield what the next entry has to say: no chunk, some, or an error, which is the last."""
        if entry.type == EventType.OUTPUT_TEXT_DELTA:
            fields = entry.fields()
            yield self._text(fields["delta"], fields["logprobs"])
        elif entry.type == EventType.FUNCTION_CALL_ARGUMENTS_DELTA:
            fields = entry.fields()
            yield self._arguments(fields["output_index"], fields["delta"])
        elif entry.type == EventType.OUTPUT_ITEM_ADDED:
            fields = entry.fields()
            if fields["item"]["type"] == "function_call":
                yield self._call(fields["output_index"], fields["item"])
        elif entry.type == EventType.CREATED:
            yield self._open(entry.fields()["response"])
        elif entry.is_terminal:
            yield from self._end(entry.fields()["response"])

    def _open(self, response: dict[str, Any]) -> dict[str, Any]:
        self._head = _head(response, "chat.completion.chunk")
        return {**self._chunk({"role": "assistant", "content": "", "refusal": None}), "lmsp": response["lmsp"]}

    def _text(self, text: str, logprobs: list[dict[str, Any]]) -> dict[str, Any]:
        self._sent += len(text)
        self._logprobs_sent += len(logprobs)
        return self._chunk({"content": text}, logprobs=_said_of_tokens(logprobs))

    def _call(self, place: int, item: dict[str, Any]) -> dict[str, Any]:
        index = self._places.setdefault(place, len(self._places))
        return self._chunk({"tool_calls": [{"index": index, **_tool_call(item)}]})

    def _arguments(self, place: int, text: str) -> dict[str, Any]:
        return self._chunk({"tool_calls": [{"index": self._places[place], "function": {"arguments": text}}]})

    def _end(self, response: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if not self._head:
            yield self._open(response)
        # Where the log is gone, the key has kept all of the text in the response.
        if rest := responses.output_text(response)[self._sent :]:
            yield self._text(rest, responses.output_logprobs(response)[self._logprobs_sent :])
        for place, item in enumerate(response["output"]):
            if item["type"] == "function_call" and place not in self._places:
                yield self._call(place, item)
        if error := failure(response):
            yield error.body()
            return
        yield self._chunk({}, _finish_reason(response))
        if self._with_usage:
            yield {**self._head, "choices": [], "usage": _usage(response)}

    def _chunk(
        self, delta: dict[str, Any], finish_reason: str | None = None, *, logprobs: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": finish_reason}
        usage = {"usage": None} if self._with_usage else {}
        return {**self._head, "choices": [choice], **usage}


def _head(response: dict[str, Any], kind: str) -> dict[str, Any]:
    return {
        # Task, response and completion differ in the prefix alone.
        "id": response["id"].replace("resp_", "chatcmpl-", 1),
        "object": kind,
        "created": response["created_at"],
        "model": response["model"],
        "service_tier": response["service_tier"],
    }


def _said_of_tokens(logprobs: list[dict[str, Any]]) -> dict[str, Any] | None:
    return {"content": logprobs, "refusal": None} if logprobs else None


def _finish_reason(response: dict[str, Any]) -> str:
    if response["status"] == "incomplete":
        return "length"
    return "tool_calls" if _calls(response) else "stop"


def _calls(response: dict[str, Any]) -> list[dict[str, Any]]:
    return [item for item in response["output"] if item["type"] == "function_call"]


def _tool_call(item: dict[str, Any]) -> dict[str, Any]:
    function = {"name": item["name"], "arguments": item["arguments"]}
    return {"id": item["call_id"], "type": "function", "function": function}


def _usage(response: dict[str, Any]) -> dict[str, Any]:
    counted = response["usage"]
    return {
        "prompt_tokens": counted["input_tokens"],
        "completion_tokens": counted["output_tokens"],
        "total_tokens": counted["total_tokens"],
        "prompt_tokens_details": counted["input_tokens_details"],
        "completion_tokens_details": counted["output_tokens_details"],
    }
