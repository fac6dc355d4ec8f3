"""Grammars without a model: what is taken, what is refused and why, and which tokens they allow."""

from collections.abc import Iterator

import pytest

from models_app.engines import grammar
from models_app.engines.grammar import Compiler, GrammarError, Matcher
from tests.engines.paper import END, TAG, Bytes


class _Blanks(Bytes):
    """Its tokenizer puts a blank before every text, as those of many models do."""

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        return [ord(" "), *super().encode(text, add_special=add_special, parse_special=parse_special)]


class _Names(Bytes):
    """Its tokenizer cannot read the name of a token as text."""

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        if "<|tag|>" in text:
            raise ValueError
        return super().encode(text, add_special=add_special, parse_special=parse_special)


@pytest.fixture
def compiler() -> Iterator[Compiler]:
    compiling = Compiler(Bytes())
    yield compiling
    compiling.close()


def _allowed(matcher: Matcher) -> set[int]:
    mask = matcher.mask()
    return {token for token in range(Bytes.size) if mask[token // 8] >> token % 8 & 1}


def _feed(matcher: Matcher, text: str) -> None:
    for byte in text.encode():
        matcher.accept(byte)


def test_only_what_the_schema_allows_may_come(compiler: Compiler) -> None:
    matcher = compiler.start(grammar.from_json_schema({"enum": ["cat", "cow"]}))
    assert _allowed(matcher) == {ord('"')}
    _feed(matcher, '"c')
    assert _allowed(matcher) == {ord("a"), ord("o")}


def test_end_tokens_may_come_where_the_grammar_may_end_and_nowhere_else(compiler: Compiler) -> None:
    matcher = compiler.start(grammar.from_regex("ab*"))
    assert _allowed(matcher) == {ord("a")}
    _feed(matcher, "a")
    assert _allowed(matcher) == {ord("b"), END}
    _feed(compiled := compiler.start(grammar.from_json_schema({"const": 1})), "1")
    assert _allowed(compiled) == {END}


def test_a_text_without_alternatives_is_tokenized_without_what_a_tokenizer_adds() -> None:
    compiler = Compiler(_Blanks())
    assert _allowed(compiler.start(grammar.from_regex("abc"))) == {ord("a")}
    compiler.close()


def test_a_text_that_holds_the_name_of_a_token_is_text() -> None:
    compiler = Compiler(_Names())
    matcher = compiler.start(grammar.from_json_schema({"const": "<|tag|>"}))
    for byte in b'"<|tag|>"':
        assert _allowed(matcher) == {byte}
        matcher.accept(byte)
    assert _allowed(matcher) == {END}
    compiler.close()


def test_tokens_without_text_are_called_by_name(compiler: Compiler) -> None:
    matcher = compiler.start(grammar.from_lark('start: <|tag|> "x"'))
    assert _allowed(matcher) == {TAG}
    matcher.accept(TAG)
    assert _allowed(matcher) == {ord("x")}


def test_journalled_tokens_lead_to_the_same_place_at_once_or_one_by_one(compiler: Compiler) -> None:
    described = grammar.from_json_schema({"type": "object", "properties": {"a": {"type": "integer"}}})
    step_by_step, at_once = compiler.start(described), compiler.start(described)
    for byte in b'{"a": 1':
        step_by_step.accept(byte)
        step_by_step.mask()
    _feed(at_once, '{"a": 1')
    assert step_by_step.mask() == at_once.mask()


def test_tokens_that_the_grammar_does_not_allow_are_found(compiler: Compiler) -> None:
    matcher = compiler.start(grammar.from_regex("ab"))
    _feed(matcher, "x")
    with pytest.raises(GrammarError, match="doesn't satisfy the grammar"):
        matcher.mask()


def test_json_is_written_in_one_way(compiler: Compiler) -> None:
    matcher = compiler.start(grammar.from_json_schema({"type": "object"}))
    _feed(matcher, "{")
    assert _allowed(matcher) == {ord('"'), ord("}")}
    _feed(matcher, '"a": [1, 2], "b": "')
    assert ord(" ") in _allowed(matcher), "inside of a string"


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        pytest.param(grammar.from_json_schema({"not": {}}), "not", id="keyword"),
        pytest.param(grammar.from_json_schema({"$ref": "#"}), "no text", id="endless"),
        pytest.param(grammar.from_regex("(a"), "unclosed group", id="expression"),
        pytest.param(grammar.from_lark("start: nothing"), "nothing", id="rule"),
        pytest.param("{", "JSON|EOF", id="not-a-grammar"),
        pytest.param(grammar.from_regex("a" * grammar.MAX_CHARACTERS), "too long", id="long"),
        pytest.param(grammar.from_json_schema({"x-guidance": {"lenient": True}, "not": {}}), "not", id="own-options"),
    ],
)
def test_a_grammar_that_cannot_be_used_is_refused(broken: str, reason: str) -> None:
    with pytest.raises(GrammarError, match=reason):
        grammar.check(broken)


def test_a_grammar_that_can_be_used_passes() -> None:
    grammar.check(grammar.from_lark('start: /[^"]*/ "x"+'))
    grammar.check(grammar.from_json_schema({"type": "array", "items": {"type": "string", "format": "date"}}))
