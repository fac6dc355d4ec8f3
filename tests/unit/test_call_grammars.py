"""Grammars of calls: what they let through the parser reads as whole calls, and they let nothing else through."""

from collections.abc import Iterator
from typing import Any, Literal

import pytest

from models_app.engines import grammar
from models_app.engines.grammar import Compiler, GrammarError, Matcher
from models_app.parsing.call_formats import FORMATS, HERMES, LLAMA3, MISTRAL, MISTRAL_ARGS, CallFormat
from models_app.parsing.call_grammars import lark
from models_app.parsing.parser import OutputParser
from models_app.parsing.segments import Call, Closed, merged

_END = 256
_CONTROLS = ["<tool_call>", "</tool_call>", "<|python_tag|>", "[TOOL_CALLS]", "[ARGS]", "<think>", "</think>"]
_IDS = {name: _END + 1 + index for index, name in enumerate(_CONTROLS)}
TOOLS: list[dict[str, Any]] = [
    {"name": "add", "parameters": {"properties": {"a": {"type": "integer"}}, "additionalProperties": False}},
    {"name": "now", "parameters": None},
]
ONE = {
    HERMES: '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>',
    LLAMA3: '{"name": "add", "parameters": {"a": 1}}',
    MISTRAL: '[TOOL_CALLS] [{"name": "add", "arguments": {"a": 1}}]',
    MISTRAL_ARGS: '[TOOL_CALLS]add[ARGS]{"a": 1}',
}
TWO = {
    HERMES: ONE[HERMES] + '\n<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>',
    LLAMA3: ONE[LLAMA3] + '; {"name": "now", "parameters": {}}',
    MISTRAL: ONE[MISTRAL][:-1] + ', {"name": "now", "arguments": {}}]',
    MISTRAL_ARGS: ONE[MISTRAL_ARGS] + "[TOOL_CALLS]now[ARGS]{}",
}
FORMS = pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
# Their marks are tokens without text, or text like any other.
TOKENS = pytest.mark.parametrize("controls", [{}, _IDS], ids=["text", "tokens"])


class _Vocabulary:
    """Single bytes, an end token, and every mark as a token that has no text."""

    size = _END + 1 + len(_CONTROLS)

    def piece(self, token: int) -> bytes:
        return bytes([token]) if token < _END else b""

    def name(self, token: int) -> bytes:
        return b"<|end|>" if token == _END else _CONTROLS[token - _END - 1].encode()

    def is_end(self, token: int) -> bool:
        return token == _END

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        return list(text.encode())


@pytest.fixture(scope="module")
def compiler() -> Iterator[Compiler]:
    compiling = Compiler(_Vocabulary())
    yield compiling
    compiling.close()


def tokens(text: str, controls: dict[str, int]) -> list[int]:
    for name, token in controls.items():
        before, found, after = text.partition(name)
        if found:
            return [*tokens(before, controls), token, *tokens(after, controls)]
    return list(text.encode())


def follows(matcher: Matcher, text: str, controls: dict[str, int]) -> bool:
    """Tell whether a whole output follows the grammar."""
    try:
        for token in tokens(text, controls):
            matcher.accept(token)
        return bool(matcher.mask()[_END // 8] >> _END % 8 & 1)
    except GrammarError:
        return False


def made(form: CallFormat, controls: dict[str, int], **options: Any) -> str:
    return grammar.from_lark(lark(form, TOOLS, controls, **{"forced": True, **options}))


@FORMS
@TOKENS
def test_calls_follow_and_are_read(compiler: Compiler, form: CallFormat, controls: dict[str, int]) -> None:
    forced = made(form, controls)
    for text, count in ((ONE[form], 1), (TWO[form], 2)):
        assert follows(compiler.start(forced), text, controls)
        segments = OutputParser(form, ["add", "now"]).feed(text)
        assert [segment for segment in merged(segments) if isinstance(segment, Closed)] == [Closed(True)] * count
        assert [type(segment) for segment in merged(segments)].count(Call) == count


@FORMS
@TOKENS
def test_what_is_no_call_does_not_follow(compiler: Compiler, form: CallFormat, controls: dict[str, int]) -> None:
    forced = made(form, controls)
    for wrong in ("", "Hello", ONE[form][:-1], ONE[form].replace("add", "rm"), ONE[form].replace("1", '"one"')):
        assert not follows(compiler.start(forced), wrong, controls), wrong
    assert not follows(compiler.start(made(form, controls, most=1)), TWO[form], controls)


@FORMS
@TOKENS
def test_where_nothing_is_demanded_text_may_stand_before(
    compiler: Compiler, form: CallFormat, controls: dict[str, int]
) -> None:
    free = made(form, controls, forced=False)
    call = f"{form.mark}{ONE[form]}" if form is LLAMA3 else ONE[form]
    for right in ("Hello, {name}.\n", ONE[form], f"Let me see.\n{call}"):
        assert follows(compiler.start(free), right, controls), right
    assert not follows(compiler.start(free), f"Let me see.\n{call}".replace("1", '"one"'), controls)


@FORMS
@TOKENS
@pytest.mark.parametrize(("reasoning", "before"), [("tagged", "<think>Hm.</think>\n\n"), ("begun", "Hm.\n</think>\n")])
def test_reasoning_may_come_first(
    compiler: Compiler,
    form: CallFormat,
    controls: dict[str, int],
    reasoning: Literal["tagged", "begun"],
    before: str,
) -> None:
    thinking = made(form, controls, reasoning=reasoning)
    assert follows(compiler.start(thinking), before + ONE[form], controls)
    assert not follows(compiler.start(thinking), before + "Hello", controls)
    assert follows(compiler.start(thinking), ONE[form], controls) is (reasoning == "tagged")


@FORMS
@TOKENS
def test_an_answer_with_a_schema_may_stand_instead_of_calls(
    compiler: Compiler, form: CallFormat, controls: dict[str, int]
) -> None:
    answer = {"type": "object", "properties": {"b": {"type": "boolean"}}, "required": ["b"]}
    either = made(form, controls, forced=False, answer=answer)
    call = f"{form.mark}{ONE[form]}" if form is LLAMA3 else ONE[form]
    for right in ('{"b": true}', call):
        assert follows(compiler.start(either), right, controls), right
    for wrong in ("Hello", "{}", call.replace("1", '"one"')):
        assert not follows(compiler.start(either), wrong, controls), wrong
    alone = grammar.from_lark(lark(None, [], controls, forced=False, reasoning="begun", answer=answer))
    assert follows(compiler.start(alone), 'Hm.</think>\n{"b": true}', controls)
    assert not follows(compiler.start(alone), '{"b": true}', controls)


def test_a_grammar_without_ids_can_be_checked_without_a_model() -> None:
    for form in FORMATS.values():
        for forced in (True, False):
            grammar.check(made(form, {}, forced=forced))
