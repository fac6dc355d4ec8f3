"""What a model is to answer: earlier turns and new items as one conversation, and the prompt it becomes.

A conversation is resolved once, when its next turn is accepted, and stored with it whole. To go on from a response is
therefore one look at it, however many there were before it, and does not depend on theirs being kept.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from clients_app.models import Client
from lmsp_site.errors import Conflict, InvalidRequest, NotFound
from models_app import chat
from models_app.models import LanguageModel
from models_app.tool_prompts import Message
from tasks_app import compaction, inputs, items, reading, responses, tools
from tasks_app.input_items import MAX_ITEMS, MAX_TEXT
from tasks_app.items import Item
from tasks_app.models import Task

_MAX_REFERENCED = 256  # Responses that one request refers to items of.


class Turn(NamedTuple):
    """What a model is given: items, the prompt's token ids, and how many older items were left out.

    `reading` says how its answer will be read.
    """

    items: list[Item]
    prompt: list[int]
    dropped: int
    reading: dict[str, Any] | None = None


def resolve(client: Client, fields: dict[str, Any], said_before: Sequence[Item] | None = None) -> list[Item]:
    """Return the whole conversation that a request goes on with, oldest first; new items have no ids yet.

    Args:
        client: whose request it is.
        fields: of the request.
        said_before: what came before its input, where that need not be looked up.

    Raises:
        NotFound: an earlier response or a referenced item that `client` has not (or has not stored).
        Conflict: one that has not finished.
        InvalidRequest: too much, an id twice, a call's output without the call, a compaction that was altered.
    """
    earlier = list(said_before or ())
    if said_before is None and fields["previous_response_id"]:
        earlier = _earlier(client, fields["previous_response_id"])
    said = earlier + _opened(client, _dereferenced(client, fields["input"] or []))
    _check(said)
    return said


def turn(model: LanguageModel, fields: dict[str, Any], said: list[Item]) -> Turn:
    """Return what `model` is given of a conversation: all of it, or with ``truncation: auto`` what has room.

    Raises:
        ContextLengthExceeded: it does not fit, and may not be cut any shorter.
    """
    fitting = _cut_to_fit(model, fields, said) if fields.get("truncation") == "auto" else _turn(model, fields, said)
    chat.require_fit(model, len(fitting.prompt))
    return fitting


def count(model: LanguageModel, fields: dict[str, Any], said: list[Item]) -> int:
    """Return the tokens of the prompt that ``turn`` would make, also where it is too long for the model."""
    if fields.get("truncation") == "auto":
        return len(_cut_to_fit(model, fields, said).prompt)
    return len(_turn(model, fields, said).prompt)


def messages(instructions: str | None, said: Sequence[Item]) -> list[Message]:
    """Return the messages of a conversation, the instructions of its latest turn first."""
    found = items.messages(said)
    return [{"role": "system", "content": instructions}, *found] if instructions else found


def _turn(model: LanguageModel, fields: dict[str, Any], said: list[Item], dropped: int = 0) -> Turn:
    effort = (fields.get("reasoning") or {}).get("effort")
    prompt, token_ids = chat.prompt(model, messages(fields["instructions"], said), tools.callable_tools(fields), effort)
    return Turn(said, token_ids, dropped, reading.of(prompt))


def _earlier(client: Client, response_id: str) -> list[Item]:
    tasks = Task.objects.of(client).select_related("response")
    task = tasks.filter(response=response_id, response__store=True).first()
    if task is None:
        raise NotFound(
            f"There is no response {response_id!r}.", code="response_not_found", param="previous_response_id"
        )
    _require_finished(task, "previous_response_id")
    return inputs.of(task.id) + _output(task)


def _output(task: Task) -> list[Item]:
    """Return what a task has put out, without what was said of its tokens: each later turn would keep it again."""
    return [items.without_logprobs(item) for item in responses.current(task)["output"]]


def _require_finished(task: Task, param: str) -> None:
    if not task.finished:
        raise Conflict(
            f"The response {responses.of(task).id} has not finished; wait for its end, or cancel it.",
            code="response_not_finished",
            param=param,
            retry=True,
        )


def _dereferenced(client: Client, sent: list[Item]) -> list[Item]:
    """Put the items of stored responses into the places of references to them."""
    wanted = {item["id"] for item in sent if item["type"] == "item_reference"}
    if not wanted:
        return sent
    task_ids = sorted({items.task_of(item_id) for item_id in wanted})
    if len(task_ids) > _MAX_REFERENCED:
        raise InvalidRequest(
            f"input: refers to items of more than {_MAX_REFERENCED} responses; send previous_response_id.",
            param="input",
            code="invalid_value",
        )
    tasks = Task.objects.of(client).select_related("response").filter(pk__in=task_ids, response__store=True)
    known: dict[str, Item] = {}
    given = inputs.of_each([task.id for task in tasks])
    for task in tasks:
        _require_finished(task, "input")
        known |= {item["id"]: item for item in given[task.id] + _output(task)}
    for item_id in wanted:
        if item_id not in known:
            raise NotFound(f"There is no item {item_id!r}.", code="item_not_found", param="input")
    return [known[item["id"]] if item["type"] == "item_reference" else item for item in sent]


def _opened(client: Client, sent: list[Item]) -> list[Item]:
    """Put what compactions hold into their places.

    A compaction holds the user's messages too, in their order; those that stand before it are not said again.
    """
    found: list[Item] = []
    for item in sent:
        if item["type"] != "compaction":
            found.append(item)
            continue
        held = compaction.unseal(client, item["encrypted_content"])
        repeated = [message["content"] for message in held if items.is_message(message, "user")]
        found = [one for one in found if not (items.is_message(one, "user") and one["content"] in repeated)] + held
    return found


def _check(said: list[Item]) -> None:
    characters = sum(len(text) for item in said for text in items.texts(item))
    if len(said) > MAX_ITEMS or characters > MAX_TEXT:
        raise _unfit(
            f"the conversation has {len(said)} items with {characters} characters; "
            f"at most {MAX_ITEMS} with {MAX_TEXT} are taken."
        )
    ids: set[str] = set()
    calls: set[str] = set()
    for item in said:
        if (item_id := item.get("id")) in ids:
            raise _unfit(f"the item {item_id!r} is there twice; send it once.")
        if item_id:
            ids.add(item_id)
        if item["type"] == "function_call":
            calls.add(item["call_id"])
        elif item["type"] == "function_call_output" and item["call_id"] not in calls:
            raise _unfit(f"there is no function_call before the output for {item['call_id']!r}.")


def _unfit(message: str) -> InvalidRequest:
    return InvalidRequest(f"input: {message}", param="input", code="invalid_value")


def _cut_to_fit(model: LanguageModel, fields: dict[str, Any], said: list[Item]) -> Turn:
    """Leave out as few of the oldest items as it takes to leave room for an answer, or all that may be left out."""
    groups = _droppable(said)
    # A prompt cut to the brim would leave room for one token only.
    room = min(fields.get("max_output_tokens") or model.context_length, model.context_length // 4)
    most = model.context_length - room

    def without(groups_dropped: int) -> Turn:
        kept = _without(said, groups[:groups_dropped])
        return _turn(model, fields, kept, len(said) - len(kept))

    best = without(0)
    few, many = 0, len(groups)
    if len(best.prompt) > most and groups:
        best = without(many)
        while few + 1 < many:
            middle = (few + many) // 2
            if len((tried := without(middle)).prompt) <= most:
                many, best = middle, tried
            else:
                few = middle
    return best


def _droppable(said: list[Item]) -> list[list[int]]:
    """Return the places of what may be left out, oldest first, in groups that stand or fall together.

    A message of the user goes with what follows it up to the next one, and calls with their outputs. Never left out are
    messages of the system and the developer, the user's last message, and the newest group.
    """
    last_said = max((index for index, item in enumerate(said) if items.is_message(item, "user")), default=-1)
    groups: list[list[int]] = []
    begins = True
    for index, item in enumerate(said):
        if items.is_message(item, "system", "developer") or index == last_said:
            begins = True
            continue
        answers = item["type"] == "function_call_output"
        if (
            begins
            or items.is_message(item, "user")
            or (not answers and said[index - 1]["type"] == "function_call_output")
        ):
            groups.append([])
        groups[-1].append(index)
        begins = False
    if groups and groups[-1][-1] == len(said) - 1:
        groups.pop()
    return groups


def _without(said: list[Item], groups: list[list[int]]) -> list[Item]:
    dropped = {index for group in groups for index in group}
    kept = [item for index, item in enumerate(said) if index not in dropped]
    calls = {item["call_id"] for item in kept if item["type"] == "function_call"}
    return [item for item in kept if item["type"] != "function_call_output" or item["call_id"] in calls]
