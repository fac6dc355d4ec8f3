"""Grammars in which a model cannot but call a tool rightly: the form of its calls around the schemas of its tools."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from models_app.parsing.call_formats import THINK, THINK_END, CallFormat

Mark = Callable[[str], str]

MOST_CALLS = 8
"""Calls of one output where nobody has said how many may be made: a small model would not come to an end by itself."""

# As for other structured output: JSON is written in one way (docs/decisions/0029).
_OPTIONS = {
    "item_separator": ", ",
    "key_separator": ": ",
    "whitespace_flexible": False,
    "lenient": False,
    "coerce_one_of": False,
}


def arguments_schema(parameters: dict[str, Any] | None) -> dict[str, Any]:
    """Return the schema of a function's arguments: an object in any case, an empty one where nothing is said."""
    if parameters is None:
        return {"type": "object", "properties": {}, "additionalProperties": False}
    return {"type": "object", **parameters}


def lark(
    form: CallFormat | None,
    tools: Sequence[Mapping[str, Any]],
    controls: Mapping[str, int],
    *,
    forced: bool,
    reasoning: Literal["tagged", "begun"] | None = None,
    most: int | None = None,
    answer: dict[str, Any] | None = None,
) -> str:
    """Return a grammar of outputs in llguidance's Lark.

    Args:
        form: of the calls; ``None`` where there are none.
        tools: each with ``name`` and ``parameters``.
        controls: ids of the marks that are tokens without text.
        forced: whether there is a call in any case, and nothing else; otherwise text may stand before it, or alone.
        reasoning: what may come first, as for the parser.
        most: calls.
        answer: the schema of an answer that is no call; any text where it is left out.
    """

    def mark(name: str) -> str:
        return f"<[{controls[name]}]>" if name in controls else json.dumps(name)

    rules = ["output: answer"]
    if form is not None:
        rules = _forced(form, mark) if forced else _free(form, mark, form.mark in controls, answer is not None)
        rules += _calls(form, mark, (most or MOST_CALLS) - 1)
        rules += [f"function: {' | '.join(f'f{index}' for index in range(len(tools)))}"]
        rules += [_function(form, index, tool["name"], mark) for index, tool in enumerate(tools)]
        rules += [f"a{index}: {_json(arguments_schema(tool['parameters']))}" for index, tool in enumerate(tools)]
    if answer is not None and not forced:
        rules.append(f"answer: {_json(answer)}")
    start = {"tagged": "start: thought? output", "begun": "start: rest output"}.get(reasoning or "", "start: output")
    thought = _thought(mark, is_token=THINK_END in controls) if reasoning else []
    return "\n".join([start, *rules, *thought]) + "\n"


def _json(schema: dict[str, Any]) -> str:
    return f"%json {json.dumps({**schema, 'x-guidance': _OPTIONS})}"


def _function(form: CallFormat, index: int, name: str, mark: Mark) -> str:
    if form.separator:
        return f"f{index}: {json.dumps(name)} {mark(form.separator)} a{index}"
    opening = json.dumps(f'{{"name": "{name}", "{form.key}": ')
    return f'f{index}: {opening} a{index} "}}"'


def _calls(form: CallFormat, mark: Mark, more: int) -> list[str]:
    """Return the rule ``calls``: all that follows the first mark."""
    opening = mark(form.mark)
    if form.end:
        further = rf'"\n" {opening} call'
        return [_repeated("calls: call", further, more), rf'call: "\n" function "\n" {mark(form.end)}']
    if form.separator:
        return [_repeated("calls: function", f"{opening} function", more)]
    if form.listed:
        return [_repeated('calls: " [" function', '", " function', more) + ' "]"']
    return [_repeated("calls: function", '"; " function', more)]


def _forced(form: CallFormat, mark: Mark) -> list[str]:
    return ["output: calls" if form.bare else f"output: {mark(form.mark)} calls"]


def _free(form: CallFormat, mark: Mark, is_token: bool, has_schema: bool) -> list[str]:
    """Return the rule ``output`` where there may be an answer, and every call is one."""
    if has_schema:
        # The mark tells calls from an answer, which may begin like a bare call.
        return [f"output: answer | {mark(form.mark)} calls"]
    # What begins like a call is one.
    no_call = r" & /\s*[^\s{](?s:.*)/" if form.bare else ""
    bare = "calls | " if form.bare else ""
    end = " TEXT?" if form.end else ""
    if is_token:
        return [f"output: {bare}TEXT? ({mark(form.mark)} calls{end})?", f"TEXT: /(?s:.+)/{no_call}"]
    name = re.escape(form.mark)
    return [
        # An output that is empty is not worth a rule of its own: the lexer takes the longest text there is.
        f"output: {bare}TEXT | before calls{end}",
        f"TEXT: /(?s:.+)/ & ~/(?s:.*){name}(?s:.*)/{no_call}",
        "before[lazy]: BEFORE",
        f"BEFORE: /(?s:.*){name}/{no_call}",
    ]


def _thought(mark: Mark, *, is_token: bool) -> list[str]:
    thought = f"thought: {mark(THINK)} rest"
    if is_token:
        return [thought, rf"rest: /(?s:.*)/ {mark(THINK_END)} /\s*/"]
    name = THINK_END.replace("/", r"\/")
    return [thought, r"rest: reasons /\s*/", f"reasons[lazy]: /(?s:.*){name}/"]


def _repeated(first: str, further: str, more: int) -> str:
    return f"{first} ({further}){{0,{more}}}" if more else first
