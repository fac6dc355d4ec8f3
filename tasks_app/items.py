"""Items of a conversation in the one form in which they are stored: their ids, and how a model reads them.

An item is the API's object, checked and filled in by ``input_items``: messages have their content as a list of parts.
The id of an item that this service has named begins with the id of its task, so that it can be found without an index.
"""

import secrets
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from lmsp_site.ids import ALPHABET, SUFFIX_LENGTH
from models_app.tool_prompts import Message

Item = dict[str, Any]

_PREFIXES = {"message": "msg", "function_call": "fc", "function_call_output": "fco", "reasoning": "rs"}
_CALL_CHANCE = 24
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


def new_output_id(task_id: str, kind: str = "message") -> str:
    """Return a new id for an item of a task's output."""
    return f"{_PREFIXES[kind]}_{_suffix(task_id)}{_chance(_CHANCE)}"


def new_call_id() -> str:
    """Return a new id by which the output of a call will name it."""
    return f"call_{_chance(_CALL_CHANCE)}"


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
    """Return the messages a chat template is given, as ``tool_prompts`` describes them.

    The models' templates have one name for what the API calls system and developer. Calls belong to the message of the
    assistant that they follow. Reasoning is not repeated to the model.
    """
    found: list[Message] = []
    names: dict[str, str] = {}
    for item in items:
        kind = item["type"]
        if kind == "message":
            role = "system" if item["role"] == "developer" else item["role"]
            found.append({"role": role, "content": "".join(texts(item))})
        elif kind == "function_call":
            if not found or found[-1]["role"] != "assistant":
                found.append({"role": "assistant", "content": ""})
            names[item["call_id"]] = item["name"]
            call = {"id": item["call_id"], "name": item["name"], "arguments": item["arguments"]}
            found[-1].setdefault("tool_calls", []).append(call)
        elif kind == "function_call_output":
            call_id = item["call_id"]
            told = {"role": "tool", "tool_call_id": call_id, "name": names.get(call_id, "")}
            found.append({**told, "content": "".join(texts(item))})
    return found


def _chance(length: int) -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(length))


def _suffix(task_id: str) -> str:
    return task_id.removeprefix("task_")
