"""Tools, calls and their outputs as a chat template is given them: as structures, or where it knows none, as text.

Messages come as dictionaries with ``role`` and ``content``; one of the assistant may have ``tool_calls`` (each with
``id``, ``name`` and the JSON text of its ``arguments``); one of the role ``tool`` has ``tool_call_id`` and ``name``.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

from models_app.parsing.call_formats import CallFormat

Message = dict[str, Any]
Tool = dict[str, Any]

_INTRODUCTION = """\
You can call functions to find out or do what the user asks for. These are the functions, each as JSON:
<tools>
{tools}
</tools>

To call one, write a JSON object with its name and its arguments between the tags <tool_call> and </tool_call>:
<tool_call>
{{"name": "the name of the function", "arguments": {{"the name of an argument": "its value"}}}}
</tool_call>
To call several, write one after the other. What they return is then told between <tool_response> and \
</tool_response>."""

# What a call looks like is learned by example: of 24 answers to a question that needs a function, the demo model began
# none with a call after the introduction alone, and 18 after these.
_EXAMPLES = (
    ("What time is it in Rome?", {"name": "get_time", "arguments": '{"place": "Rome"}'}),
    ("Who is the mayor of Lyon?", {"name": "find_person", "arguments": '{"office": "mayor", "place": "Lyon"}'}),
)

# Templates of the Mistral models take no other ids.
_SHORT_ID = re.compile(r"[A-Za-z0-9]{9}")


def declared(tools: list[Tool]) -> list[Tool]:
    """Return tools in the shape that templates take: an object with the function in it."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool["name"],
                "description": tool["description"] or "",
                "parameters": tool["parameters"] or {"type": "object", "properties": {}},
            },
        }
        for tool in tools
    ]


def structured(messages: list[Message], form: CallFormat) -> list[Message]:
    """Return messages for a template that knows calls: with objects for arguments, and ids as it takes them."""
    return list(_one_call_each(messages, form) if form.one_a_message else _shaped_all(messages, form))


def as_text(messages: list[Message], tools: list[Tool] | None = None) -> list[Message]:
    """Return messages for a template that does not know calls: all of it is text, in the form of the Hermes models.

    Many models have learned that form. Calls stand in the assistant's turn and their outputs in the user's, those that
    follow one another in one: many templates want the roles to alternate. The tools stand in the system's message.
    """
    found: list[Message] = []
    before = ""
    for message in messages:
        role, content = message["role"], message["content"]
        if role == "tool":
            text = f"<tool_response>\n{content}\n</tool_response>"
            _join(found, "user", text, joins=before == "tool")
        elif calls := message.get("tool_calls"):
            _join(found, "assistant", "\n".join(filter(None, [content, *map(_call, calls)])), joins=False)
        else:
            found.append({"role": role, "content": content})
        before = role
    return _introduced(found, tools) if tools else found


def _introduced(messages: list[Message], tools: list[Tool]) -> list[Message]:
    lines = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in declared(tools))
    introduction = _INTRODUCTION.format(tools=lines)
    if messages and messages[0]["role"] == "system":
        first, *rest = messages
        return [{**first, "content": f"{first['content']}\n\n{introduction}"}, *_examples(), *rest]
    return [{"role": "system", "content": introduction}, *_examples(), *messages]


def _examples() -> Iterator[Message]:
    for question, call in _EXAMPLES:
        yield {"role": "user", "content": question}
        yield {"role": "assistant", "content": _call(call)}


def _join(found: list[Message], role: str, text: str, *, joins: bool) -> None:
    if joins:
        found[-1]["content"] = f"{found[-1]['content']}\n{text}"
    else:
        found.append({"role": role, "content": text})


def _call(call: dict[str, str]) -> str:
    arguments = call["arguments"]
    if isinstance(_parsed(arguments), str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return f'<tool_call>\n{{"name": {json.dumps(call["name"])}, "arguments": {arguments}}}\n</tool_call>'


def _parsed(arguments: str) -> Any:
    """Return the object that the text of arguments means, or the text where it means none."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    return value if isinstance(value, dict) else arguments


def _shaped_all(messages: list[Message], form: CallFormat) -> Iterator[Message]:
    for message in messages:
        yield _shaped(message, form)


def _shaped(message: Message, form: CallFormat) -> Message:
    if message["role"] == "tool":
        return {**message, "tool_call_id": _id(message["tool_call_id"], form)}
    if not (calls := message.get("tool_calls")):
        return message
    functions = [
        {
            "id": _id(call["id"], form),
            "type": "function",
            "function": {"name": call["name"], "arguments": _parsed(call["arguments"])},
        }
        for call in calls
    ]
    return {**message, "tool_calls": functions}


def _one_call_each(messages: list[Message], form: CallFormat) -> Iterator[Message]:
    """Put each of several calls into a message of its own, with its output after it."""
    outputs: dict[str, Message] = {}
    calls = {call["id"] for message in messages for call in message.get("tool_calls", ())}
    for message in messages:
        if message["role"] == "tool":
            outputs.setdefault(message["tool_call_id"], message)
    for message in messages:
        if message["role"] == "tool" and message["tool_call_id"] in calls:
            continue
        if not message.get("tool_calls"):
            yield message
            continue
        if message["content"]:
            yield {"role": "assistant", "content": message["content"]}
        for call in message["tool_calls"]:
            yield _shaped({"role": "assistant", "content": "", "tool_calls": [call]}, form)
            if output := outputs.pop(call["id"], None):
                yield output


def _id(call_id: str, form: CallFormat) -> str:
    if not form.listed or _SHORT_ID.fullmatch(call_id):
        return call_id
    return hashlib.sha256(call_id.encode()).hexdigest()[:9]
