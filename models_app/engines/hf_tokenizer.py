"""The tokenizer of a model folder, by the `tokenizers` package: the only module that imports it, lazily."""

import importlib
from pathlib import Path
from typing import Any

from models_app.engines.base import LoadError
from models_app.engines.token_bytes import TokenBytes


class FolderTokenizer(TokenBytes):
    """Text to tokens and back, and what the folder says of its chat template. Safe to use from several threads."""

    def __init__(self, folder: Path) -> None:
        try:
            library: Any = importlib.import_module("tokenizers")
        except ImportError as error:
            raise LoadError("the package tokenizers is not installed", "engine_unavailable") from error
        super().__init__(folder)
        try:
            self._tokenizer: Any = library.Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as error:  # the library raises nothing narrower
            raise LoadError(f"tokenizer.json is not understood: {error}", "model_load_failed") from error
        template = folder / "chat_template.jinja"
        said = self.settings.get("chat_template")
        self.chat_template: str | None = template.read_text() if template.is_file() else _default(said)
        """The Jinja source that turns messages into a prompt."""
        self.bos_token: str = _name(self.settings.get("bos_token"))
        """The text of the begin-of-sequence token, empty if there is none."""
        self.eos_token: str = _name(self.settings.get("eos_token"))
        """The text of the end-of-sequence token, empty if there is none."""

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """Tokenize.

        `add_special` adds what the model wants around a text. The names of special tokens in the text are those tokens:
        the library cannot read them otherwise, and with `parse_special` false such a text is refused by `ValueError`.
        """
        if not parse_special and any(name in text for name in self.special_tokens):
            raise ValueError("the text holds the name of a special token")
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=add_special).ids
        return ids


def open_tokenizer(path: str | Path) -> FolderTokenizer:
    """Read the vocabulary of a model folder; `LoadError` if there is none."""
    return FolderTokenizer(Path(path))


def _name(token: Any) -> str:
    return str(token.get("content", "")) if isinstance(token, dict) else str(token or "")


def _default(templates: Any) -> str | None:
    """The one template, or of several that have names the default."""
    if isinstance(templates, list):
        named = {entry.get("name"): entry.get("template") for entry in templates if isinstance(entry, dict)}
        templates = named.get("default")
    return templates if isinstance(templates, str) else None
