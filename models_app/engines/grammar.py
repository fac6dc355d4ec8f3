"""Grammars that an output must follow: written for llguidance, checked without a model, and applied as masks.

A grammar is one string, in llguidance's JSON form. The web process makes and checks it before it accepts a request;
an engine compiles it over its model's own tokens and asks, before each token, which ones may come. llguidance is
imported when it is first needed: most engines never meet a grammar.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import metadata
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    from llguidance import LLMatcher, LLParserLimits, LLTokenizer
    from llguidance._lib import JsonCompileOptions
    from numpy.typing import NDArray

MAX_CHARACTERS = 256 * 1024
"""A longer grammar is refused."""

_SEPARATORS = (", ", ": ")
"""JSON is written in one way, the most common one: given the choice, small models lose themselves in blanks."""

_SPECIAL = b"\xff"
"""What llguidance wants before the name of a token that has no text."""


class GrammarError(ValueError):
    """A grammar that cannot be used; the message is meant for whoever wrote it."""


class Vocabulary(Protocol):
    """A model's tokens, as a grammar sees them."""

    size: int

    def piece(self, token: int) -> bytes:
        """The bytes that the token adds to the text; none where it has no text."""

    def name(self, token: int) -> bytes:
        """The token's own name, also of one that has no text."""

    def is_end(self, token: int) -> bool:
        """Whether the model ends its turn with this token."""

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """Tokenize.

        `ValueError` where the names of special tokens in the text cannot be read as text.
        """


def version() -> str:
    """Return llguidance's version: another one may allow other tokens, or force others upon a model."""
    return metadata.version("llguidance")


def from_json_schema(schema: dict[str, Any] | bool) -> str:
    """Return the grammar of the JSON texts that `schema` allows; see `check` for what it may say."""
    # Its own options come last, or a schema could bring others along.
    options: JsonCompileOptions = {
        "item_separator": _SEPARATORS[0],
        "key_separator": _SEPARATORS[1],
        "whitespace_flexible": False,
        "lenient": False,
        "coerce_one_of": False,
    }
    grammar: str = _matcher_class().grammar_from_json_schema(json.dumps(schema), overrides=options)
    return grammar


def from_lark(text: str) -> str:
    """Return the grammar that a text in llguidance's dialect of Lark describes.

    Its strings and expressions match the text of an output; a token that has no text is called by its name, as in
    ``<|python_tag|>``, if that begins with ``<`` and ends with ``>``.
    """
    grammar: str = _matcher_class().grammar_from_lark(text)
    return grammar


def from_regex(expression: str) -> str:
    """Return the grammar of the texts that a regular expression (without look-around) matches as a whole."""
    grammar: str = _matcher_class().grammar_from_regex(expression)
    return grammar


def check(grammar: str) -> None:
    """Compile a grammar as an engine would, within the same limits, over single bytes instead of tokens.

    Names of tokens are taken as unknown, since they depend on the model. Takes milliseconds, at most about one second.

    Raises:
        GrammarError: llguidance does not take it, or no text follows it.
    """
    matcher = _compile(_bytes_as_tokens(), grammar)
    matcher.compute_bitmask()
    _require_sound(matcher)


class Matcher:
    """Where one sequence is in its grammar.

    Nothing here blocks but `mask`: compiling, and each mask, is done in the `Compiler`'s thread, while the engine
    decodes the token before.
    """

    def __init__(self, executor: ThreadPoolExecutor, start: Callable[[], LLMatcher]) -> None:
        self._executor = executor
        self._matcher = executor.submit(start)
        self._accepted: list[int] = []
        self._mask: Future[bytes] | None = None
        self.prepare()

    def accept(self, token: int) -> None:
        """Take note of a token of the output, chosen now or in an earlier run."""
        self._accepted.append(token)
        self._mask = None

    def prepare(self) -> None:
        """Have the mask of the next token computed in the meantime."""
        accepted, self._accepted = self._accepted, []
        self._mask = self._executor.submit(self._advance, accepted)

    def mask(self) -> bytes:
        """Return which tokens may come next: one bit for each, the lowest of the first byte for token 0.

        End tokens are among them exactly where the grammar may end.

        Raises:
            GrammarError: the grammar cannot be compiled over this vocabulary, has become too complex to be followed
                any further, or does not allow the tokens that were accepted.
        """
        if self._mask is None:
            self.prepare()
        assert self._mask is not None
        return self._mask.result()

    def _advance(self, accepted: list[int]) -> bytes:
        matcher = self._matcher.result()
        if accepted and not matcher.is_error():
            matcher.consume_tokens(accepted)
        _require_sound(matcher)
        mask: bytes = matcher.compute_bitmask()
        _require_sound(matcher)
        return mask


class Compiler:
    """Grammars over the tokens of one model, which are prepared when the first one comes."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._executor = ThreadPoolExecutor(1, "grammar")
        self._tokens: LLTokenizer | None = None

    def start(self, grammar: str) -> Matcher:
        """Return the matcher of a new sequence, at once; what is wrong with the grammar `Matcher.mask` says."""
        return Matcher(self._executor, lambda: self._compile(grammar))

    def close(self) -> None:
        """End the thread."""
        self._executor.shutdown(cancel_futures=True)

    def _compile(self, grammar: str) -> LLMatcher:
        if self._tokens is None:
            known, all_tokens = self._vocabulary, range(self._vocabulary.size)
            words = [_word(known, token) for token in all_tokens]
            encode = functools.partial(known.encode, add_special=False, parse_special=False)
            self._tokens = _tokenizer(words, [token for token in all_tokens if known.is_end(token)], encode)
        return _compile(self._tokens, grammar)


def allowed_tokens(mask: bytes, size: int) -> NDArray[np.intp]:
    """Return which of the first `size` tokens a mask of `Matcher.mask` allows, in ascending order."""
    import numpy as np

    return np.flatnonzero(np.unpackbits(np.frombuffer(mask, np.uint8), count=size, bitorder="little"))


def _word(vocabulary: Vocabulary, token: int) -> bytes:
    text = vocabulary.piece(token)
    if _SPECIAL in text:
        return b""  # That byte is no part of any text, and must not be taken for the mark.
    return text or _SPECIAL + vocabulary.name(token)


def _compile(tokens: LLTokenizer, grammar: str) -> LLMatcher:
    if len(grammar) > MAX_CHARACTERS:
        raise GrammarError(f"it is too long: more than {MAX_CHARACTERS} characters")
    matcher = _matcher_class()(tokens, grammar, log_level=0, limits=_limits())
    _require_sound(matcher)
    return matcher


def _require_sound(matcher: LLMatcher) -> None:
    if matcher.is_error():
        message = matcher.get_error().partition("\n<")[0].strip()
        if message.startswith("NoExtension"):
            message = "no text can follow it"
        raise GrammarError(message)


def _tokenizer(words: Sequence[bytes], ends: Collection[int], encode: Callable[[str], list[int]]) -> LLTokenizer:
    from llguidance import LLTokenizer, TokenizerWrapper

    tokenizer: LLTokenizer | None = None

    def split(text: bytes) -> list[int]:
        """Cut a text that the grammar leaves no choice about as the model would have."""
        try:
            tokens = encode(text.decode("utf-8", "replace"))
        except ValueError:
            tokens = []
        # Some models' tokenizers put a blank before every text, some have tokens that the model lacks.
        if tokenizer is None or b"".join(words[token] for token in tokens if token < len(words)) == text:
            return tokens
        return [*tokenizer.greedy_tokenize(text.decode())]

    class Tokens:
        """What llguidance asks of a vocabulary."""

        bos_token_id = None
        # A model without an end token runs until its context is full.
        eos_token_id = min(ends, default=0)
        tokens = words
        special_token_ids = [token for token, word in enumerate(words) if word.startswith(_SPECIAL)]

        def __call__(self, text: bytes) -> list[int]:
            return split(text)

    tokenizer = LLTokenizer(TokenizerWrapper(Tokens()), n_vocab=len(words), eos_token=sorted(ends) or [0])
    return tokenizer


@functools.cache
def _bytes_as_tokens() -> LLTokenizer:
    words = [*(bytes([byte]) for byte in range(255)), _SPECIAL + b"<end>"]
    return _tokenizer(words, [255], lambda text: list(text.encode()))


@functools.cache
def _limits() -> LLParserLimits:
    from llguidance import LLParserLimits

    # The rest as llguidance has it: a mask is given up after some tens of milliseconds.
    return LLParserLimits(max_items_in_row=10_000, verbose_errors=False)


def _matcher_class() -> type[LLMatcher]:
    from llguidance import LLMatcher

    return LLMatcher
