"""Items of a conversation in the one form in which they are stored: their ids, and how a model reads them.

An item is the API's object, checked and filled in by ``input_items``: messages have their content as a list of parts.
The id of an item that this service has named begins with the id of its task, so that it can be found without an index.
"""

import json
import secrets
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from lmsp_site.ids import ALPHABET, SUFFIX_LENGTH
from models_app.chat import Message

Item = dict[str, Any]

_PREFIXES = {"message": "msg", "function_call": "fc", "function_call_output": "fco", "reasoning": "rs"}
_CHANCE = 6  # Characters: they tell the outputs of a task's attempts apart.


def text_message(role: str, text: str) -> Item:
    """Return the message of one text."""
    return {"type": "message", "role": role, "status": "completed", "content": [text_part(role, text)]}


def text_part(role: str, text: str, logprobs: Sequence[dict[str, Any]] = ()) -> Item:
    """Return a text as it stands in a message of `role`, with what is known of its tokens."""
    if role == "assistant":
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": [*logprobs]}
    return {"type": "input_text", "text": text}


def without_logprobs(item: Item) -> Item:
    """Return an item whose texts say nothing of their tokens."""
    if item["type"] != "message" or not any(part.get("logprobs") for part in item["content"]):
        return item
    parts = [part | {"logprobs": []} if part.get("logprobs") else part for part in item["content"]]
    return item | {"content": parts}


def new_output_id(task_id: str) -> str:
    """Return a new id for an output message of a task."""
    return f"msg_{_suffix(task_id)}{''.join(secrets.choice(ALPHABET) for _ in range(_CHANCE))}"


def named(items: Sequence[Item], task_id: str) -> list[Item]:
    """Return the items, each with an id: those that came without get one from the task and their place."""
    return [
        # No output's id has an i: the alphabet lacks it.
        item if "id" in item else {"id": f"{_PREFIXES[item['type']]}_{_suffix(task_id)}i{index}", **item}
        for index, item in enumerate(items)
    ]


def task_of(item_id: str) -> str:
    """Return the id of the task that would have named an item so; it may not exist."""
    return f"task_{item_id.partition('_')[2][:SUFFIX_LENGTH]}"


def is_message(item: Item, *roles: str) -> bool:
    """Tell whether an item is a message of one of the roles."""
    return item["type"] == "message" and item["role"] in roles


def texts(item: Item) -> Iterator[str]:
    """Yield every text of an item that a model could read, and those that it does not."""
    for name in ("content", "summary", "output"):
        parts = item.get(name) or ()
        if isinstance(parts, str):
            yield parts
        else:
            yield from (part.get("text") or part.get("refusal", "") for part in parts)
    yield item.get("arguments", "")
    yield item.get("encrypted_content") or ""


def messages(items: Iterable[Item]) -> list[Message]:
    """Return the messages a chat template is given.

    The models' templates have one name for what the API calls system and developer. Calls and their outputs stand as
    text in the form that the Hermes models introduced and many others were trained on: calls in the assistant's turn,
    outputs in the user's, since a template need not know any other role. Reasoning is not repeated to the model.
    """
    found: list[Message] = []
    before = ""
    for item in items:
        kind = item["type"]
        if kind == "message":
            role = "system" if item["role"] == "developer" else item["role"]
            found.append({"role": role, "content": "".join(texts(item))})
        elif kind == "function_call":
            _join(found, "assistant", _call(item), joins=bool(found) and found[-1]["role"] == "assistant")
        elif kind == "function_call_output":
            text = f"<tool_response>\n{''.join(texts(item))}\n</tool_response>"
            _join(found, "user", text, joins=before == kind)
        else:
            continue
        before = kind
    return found


def _join(found: list[Message], role: str, text: str, *, joins: bool) -> None:
    """Add a text as a turn of its own, or to the last one: many templates want the roles to alternate."""
    if joins:
        found[-1]["content"] = f"{found[-1]['content']}\n{text}".lstrip("\n")
    else:
        found.append({"role": role, "content": text})


def _call(item: Item) -> str:
    arguments = item["arguments"]
    try:
        json.loads(arguments)
    except ValueError:
        arguments = json.dumps(arguments, ensure_ascii=False)
    return f'<tool_call>\n{{"name": {json.dumps(item["name"])}, "arguments": {arguments}}}\n</tool_call>'


def _suffix(task_id: str) -> str:
    return task_id.removeprefix("task_")
