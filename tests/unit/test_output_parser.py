"""Calls and reasoning in what a model writes: recorded shapes of each form, malformed ones, and any way to cut them."""

import json
from itertools import pairwise
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models_app.parsing.call_formats import HERMES, LLAMA3, MISTRAL, CallFormat
from models_app.parsing.parser import OutputParser
from models_app.parsing.segments import Arguments, Call, Closed, Reasoning, Segment, Text, merged

TOOLS = ("get_weather", "add")
ROME = '{"city": "Rome", "days": [1, {"a": "}"}]}'
SUM = '{"a": 1, "b": -2.5e3}'
Begins = Literal["tagged", "begun"] | None


def parsed(text: str, form: CallFormat | None, reasoning: Begins = None, **options: Any) -> list[Segment]:
    parser = OutputParser(form, TOOLS, reasoning, **options)
    return merged([*parser.feed(text), *parser.finish()])


def called(name: str, arguments: str, *, whole: bool = True) -> list[Segment]:
    return [Call(name), Arguments(arguments), Closed(whole)]


RECORDED = {
    "hermes": (HERMES, '<tool_call>\n{"name": "get_weather", "arguments": ' + ROME + "}\n</tool_call>"),
    "hermes, on one line": (HERMES, '<tool_call>{"name":"get_weather","arguments":' + ROME + "}</tool_call>"),
    "hermes, arguments first": (HERMES, '<tool_call>{"arguments": ' + ROME + ', "name": "get_weather"}</tool_call>'),
    "hermes, arguments in a string": (
        HERMES,
        "<tool_call>" + json.dumps({"name": "get_weather", "arguments": ROME}) + "</tool_call>",
    ),
    "hermes, never closed": (HERMES, '<tool_call>{"name": "get_weather", "arguments": ' + ROME + "}"),
    "llama": (LLAMA3, '{"name": "get_weather", "parameters": ' + ROME + "}"),
    "llama, with a type": (LLAMA3, '\n\n{"type": "function", "name": "get_weather", "parameters": ' + ROME + "}"),
    "llama, tagged": (LLAMA3, '<|python_tag|>{"name": "get_weather", "parameters": ' + ROME + "}"),
    "mistral": (MISTRAL, '[TOOL_CALLS] [{"name": "get_weather", "arguments": ' + ROME + "}]"),
    "mistral, with an id": (
        MISTRAL,
        '[TOOL_CALLS][{"name": "get_weather", "arguments": ' + ROME + ', "id": "VvvODy9mT"}]',
    ),
    "mistral, newer": (MISTRAL, "[TOOL_CALLS]get_weather[ARGS]" + ROME),
    "mistral, newer with an id": (MISTRAL, "[TOOL_CALLS]get_weather[CALL_ID]VvvODy9mT[ARGS]" + ROME),
}
SEVERAL = {
    "hermes": (
        HERMES,
        'Let me see.\n<tool_call>\n{"name": "get_weather", "arguments": ' + ROME + "}\n</tool_call>\n"
        '<tool_call>\n{"name": "add", "arguments": ' + SUM + "}\n</tool_call>\n",
    ),
    "llama": (
        LLAMA3,
        'Let me see. <|python_tag|>{"name": "get_weather", "parameters": ' + ROME + "}; "
        '{"name": "add", "parameters": ' + SUM + "}",
    ),
    "mistral": (
        MISTRAL,
        'Let me see.[TOOL_CALLS] [{"name": "get_weather", "arguments": ' + ROME + "}, "
        '{"name": "add", "arguments": ' + SUM + "}]",
    ),
    "mistral, newer": (
        MISTRAL,
        "Let me see.[TOOL_CALLS]get_weather[ARGS]" + ROME + "[TOOL_CALLS]add[ARGS]" + SUM,
    ),
}
# What is no call stays, to the letter, the text that it is.
TEXTS = {
    "an unknown function": (HERMES, '<tool_call>\n{"name": "rm", "arguments": {}}\n</tool_call>'),
    "no JSON": (HERMES, "Say <tool_call> before and </tool_call> after."),
    "no name": (HERMES, '<tool_call>{"arguments": {}}</tool_call>'),
    "a name that is no string": (HERMES, '<tool_call>{"name": 5, "arguments": {}}</tool_call>'),
    "arguments that are a list": (HERMES, '<tool_call>{"name": "add", "arguments": [1]}</tool_call>'),
    "arguments that are text": (HERMES, '<tool_call>{"name": "add", "arguments": "one"}</tool_call>'),
    "brackets that do not match": (HERMES, '<tool_call>{"x": {"y": ]}, "name": "add"}</tool_call>'),
    "half a surrogate pair": (
        HERMES,
        '<tool_call>{"arguments": "{\\"a\\": \\"\\ud800\\"}", "name": "add"}</tool_call>',
    ),
    "too deep": (HERMES, '<tool_call>{"arguments": ' + '{"a":' * 1200 + "1" + "}" * 1200 + ', "name": "add"}'),
    "a header without an end": (HERMES, '<tool_call>{"x": "' + "y" * 20_000),
    "cut in the name": (HERMES, 'Yes.\n<tool_call>\n{"name": "ad'),
    "cut in the mark": (HERMES, "Yes. <tool_"),
    "JSON that is an answer": (LLAMA3, '{"name": "Ada", "parameters": {"born": 1815}}'),
    "JSON after a word": (LLAMA3, 'So: {"name": "add", "parameters": {}}'),
    "code": (LLAMA3, "<|python_tag|>print(1)"),
    "a list of nothing": (MISTRAL, "[TOOL_CALLS] []"),
    "a list of words": (MISTRAL, "[TOOL_CALLS] [add]"),
    "a word": (MISTRAL, "[TOOL_CALLS] is a mark"),
    "white space": (HERMES, " \n"),
    "white space around": (LLAMA3, "\n Hi \n"),
}


@pytest.mark.parametrize("shape", RECORDED)
def test_a_call_is_read(shape: str) -> None:
    form, text = RECORDED[shape]
    assert parsed(text, form) == called("get_weather", ROME)


@pytest.mark.parametrize("shape", SEVERAL)
def test_calls_after_a_text_are_read(shape: str) -> None:
    form, text = SEVERAL[shape]
    assert parsed(text, form) == [Text("Let me see."), *called("get_weather", ROME), *called("add", SUM)]


@pytest.mark.parametrize("shape", SEVERAL)
def test_no_more_calls_than_may_be(shape: str) -> None:
    form, text = SEVERAL[shape]
    parser = OutputParser(form, TOOLS, most_calls=1)
    assert merged(parser.feed(text)) == [Text("Let me see."), *called("get_weather", ROME)]
    assert parser.is_over
    assert parser.finish() == []


@pytest.mark.parametrize("shape", TEXTS)
def test_what_is_no_call_is_text(shape: str) -> None:
    form, text = TEXTS[shape]
    assert parsed(text, form) == [Text(text)]


def test_a_call_whose_name_does_not_come_keeps_nobody_waiting() -> None:
    _, text = TEXTS["a header without an end"]
    assert merged(OutputParser(HERMES, TOOLS).feed(text)) == [Text(text)]


@pytest.mark.parametrize("arguments", ["", ', "arguments": null', ', "arguments": {}', ', "arguments": "{}"'])
def test_a_call_without_arguments_has_an_empty_object(arguments: str) -> None:
    assert parsed(f'<tool_call>{{"name": "add"{arguments}}}</tool_call>', HERMES) == called("add", "{}")


@pytest.mark.parametrize(
    ("written", "kept", "rest"),
    [
        ('{"a": 1, ', '{"a": 1, ', ""),
        ('{"a": "x', '{"a": "x', ""),
        ('{"a": 1,}}</tool_call>', '{"a": 1,}', ""),
        ('{"a": NaN}}</tool_call>', '{"a": NaN}', ""),
        ('{"a": ]}', '{"a": ', "]}"),
        ('{"a": 1</tool_call>', '{"a": 1', "</tool_call>"),
    ],
)
def test_arguments_that_go_wrong_are_not_whole(written: str, kept: str, rest: str) -> None:
    found = parsed(f'<tool_call>{{"name": "add", "arguments": {written}', HERMES)
    assert found == [*called("add", kept, whole=False), *([Text(rest)] if rest else [])]


def test_text_after_a_call_is_text_again() -> None:
    text = f'<tool_call>{{"name": "add", "arguments": {SUM}}}</tool_call>\n\nDone. <b>\n'
    assert parsed(text, HERMES) == [*called("add", SUM), Text("Done. <b>\n")]


@pytest.mark.parametrize(
    ("text", "reasoning", "expected"),
    [
        ("<think>\nHm.\nYes.\n</think>\n\nRome. \n", "tagged", [Reasoning("Hm.\nYes."), Closed(), Text("Rome. \n")]),
        ("\n<think>Hm.</think>", "tagged", [Reasoning("Hm."), Closed()]),
        ("Hm.\n</think>\n\nRome.", "begun", [Reasoning("Hm."), Closed(), Text("Rome.")]),
        ("<think>\n\n</think>\n\nRome.", "tagged", [Text("Rome.")]),
        ("<think>Hm. </th", "tagged", [Reasoning("Hm. </th")]),
        (
            "<think>A</think><think>B</think>C",
            "tagged",
            [Reasoning("A"), Closed(), Reasoning("B"), Closed(), Text("C")],
        ),
        ("In <think> it </think> thinks.", "tagged", [Text("In <think> it </think> thinks.")]),
        ("<thinking", "tagged", [Text("<thinking")]),
    ],
)
def test_reasoning_stands_before_the_answer(text: str, reasoning: Begins, expected: list[Segment]) -> None:
    assert parsed(text, None, reasoning) == expected


def test_a_call_in_the_reasoning_is_none() -> None:
    call = f'<tool_call>{{"name": "add", "arguments": {SUM}}}</tool_call>'
    found = parsed(f"<think>I say {call}.</think>{call}", HERMES, "tagged")
    assert found == [Reasoning(f"I say {call}."), Closed(), *called("add", SUM)]


PIECES = [
    *(text for _, text in RECORDED.values()),
    *("<think>", "</think>", "<tool_call>", "</tool_call>", "<|python_tag|>", "[TOOL_CALLS]", "[ARGS]", "[", "]", ";"),
    *('{"name": "add", "arguments": ', '{"name": "add", "parameters": {}}', '"', "\\", "{", "}", ",", "<", " ", "\n"),
    *("a", "Yes", "🌍", "get_weather", '"x": 1'),
]


@settings(max_examples=250, deadline=None)
@given(
    text=st.lists(st.sampled_from(PIECES), max_size=8).map("".join),
    form=st.sampled_from([HERMES, LLAMA3, MISTRAL, None]),
    reasoning=st.sampled_from([None, "tagged", "begun"]),
    cuts=st.lists(st.integers(0, 300), max_size=12),
    most=st.sampled_from([None, 1, 2]),
)
def test_what_was_said_depends_on_the_text_and_not_on_how_it_was_cut(
    text: str, form: CallFormat | None, reasoning: Begins, cuts: list[int], most: int | None
) -> None:
    borders = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    parser = OutputParser(form, TOOLS, reasoning, most)
    said: list[Segment] = []
    for start, end in pairwise(borders):
        said += parser.feed(text[start:end])
        again = OutputParser(form, TOOLS, reasoning, most)
        assert merged(again.feed(text[:end])) == merged(said)
        assert again.is_over == parser.is_over
    assert merged([*said, *parser.finish()]) == parsed(text, form, reasoning, most_calls=most)
    by_letters = OutputParser(form, TOOLS, reasoning, most)
    letters = [segment for letter in text for segment in by_letters.feed(letter)]
    assert merged([*letters, *by_letters.finish()]) == parsed(text, form, reasoning, most_calls=most)


@given(text=st.text(alphabet='ab<>[]{}":,\\/ \n_tolcTOLCASR|', max_size=60))
def test_without_calls_and_reasoning_nothing_is_changed(text: str) -> None:
    for form in (HERMES, LLAMA3, MISTRAL):
        assert "".join(segment.text for segment in parsed(text, form) if isinstance(segment, Text)) == text
