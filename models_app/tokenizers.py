"""Tokenizers of registered models, opened without loading any weights.

The web process tokenizes a prompt before it accepts a task; it needs no engine for that.
"""

from functools import lru_cache
from typing import Protocol

from models_app.models import LanguageModel


class Tokenizer(Protocol):
    """Text to token ids, as the model's own file defines it."""

    @property
    def chat_template(self) -> str | None:
        """The model's Jinja template for messages, if its file has one."""

    @property
    def bos_token(self) -> str:
        """The text of the token that begins a sequence; empty if there is none."""

    @property
    def eos_token(self) -> str:
        """The text of the token that ends a sequence; empty if there is none."""

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """Return the token ids of `text`; `parse_special` reads the names of special tokens as such."""


def of(model: LanguageModel) -> Tokenizer:
    """Return the tokenizer of `model`, opened once per process."""
    return _open(model.engine, str(model.path), model.digest)


@lru_cache(maxsize=4)
def _open(engine: str, path: str, _digest: str) -> Tokenizer:
    if engine != "llamacpp":
        raise NotImplementedError(f"The engine {engine} has no tokenizer.")
    from models_app.engines import llamacpp

    return llamacpp.open_tokenizer(path)
