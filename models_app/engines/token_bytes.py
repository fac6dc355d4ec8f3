"""From the tokens of a `tokenizer.json` to the bytes that each adds to the text: pure, without the library.

Byte-level vocabularies write each byte as a printable character; those that came from SentencePiece write a space as
U+2581 and bytes that are no characters as `<0xAB>`.
"""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from models_app.engines.base import LoadError

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPACE = "\u2581"


class TokenBytes:
    """A vocabulary: what each token says, which ones end a turn, and which have names that steer the model."""

    def __init__(self, folder: Path) -> None:
        """Read the folder of a model; `LoadError` where there is no such vocabulary in it."""
        described = _json(folder / "tokenizer.json", required=True)
        config = _json(folder / "config.json")
        generation = _json(folder / "generation_config.json")
        self.settings = _json(folder / "tokenizer_config.json")
        """`tokenizer_config.json`."""
        try:
            vocabulary = _vocabulary(described["model"]["vocab"])
            added = described.get("added_tokens") or []
            names = {int(token["id"]): str(token["content"]) for token in added}
            special = {int(token["id"]) for token in added if token.get("special")}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise LoadError(f"tokenizer.json is not understood: {error!r}", "model_load_failed") from error
        self._texts = {number: text for text, number in vocabulary.items()} | names
        self._literal = set(names)
        self._special = special
        self._byte_level = _is_byte_level(described)
        self._ends = _ends(config, generation, self._id_of(self.settings.get("eos_token")))
        self.size = max(self._texts, default=-1) + 1
        """How many tokens there are, counting holes."""

    @property
    def special_tokens(self) -> list[str]:
        """The names of tokens that steer the model."""
        return [self._texts[token] for token in sorted(self._special)]

    @property
    def ends(self) -> frozenset[int]:
        """The tokens that end the model's turn."""
        return self._ends

    def is_end(self, token: int) -> bool:
        """Whether the model ends its turn with this token."""
        return token in self._ends

    def piece(self, token: int) -> bytes:
        """The bytes that the token adds to the text: none for control tokens, perhaps half a character."""
        if token in self._special or token not in self._texts:
            return b""
        text = self._texts[token]
        if token in self._literal:
            return text.encode()
        if self._byte_level:
            table = _byte_of_character()
            return b"".join(bytes([table[c]]) if c in table else c.encode() for c in text)
        if found := _BYTE.fullmatch(text):
            return bytes([int(found[1], 16)])
        return text.replace(_SPACE, " ").encode()

    def name(self, token: int) -> bytes:
        """The token as it is called, also where it adds nothing to the text."""
        return self._texts.get(token, "").encode()

    def _id_of(self, name: Any) -> int | None:
        text = name.get("content") if isinstance(name, dict) else name
        return next((number for number, known in self._texts.items() if known == text), None) if text else None


def _json(path: Path, *, required: bool = False) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        if required:
            raise LoadError(f"{path.name} is missing", "model_file_missing") from error
        return {}
    except (OSError, ValueError) as error:
        raise LoadError(f"{path.name} cannot be read: {error}", "model_load_failed") from error
    return found if isinstance(found, dict) else {}


def _vocabulary(found: Any) -> dict[str, int]:
    """A mapping as BPE has it, or a list of pairs as Unigram has it."""
    if isinstance(found, list):
        return {str(entry[0]): number for number, entry in enumerate(found)}
    return {str(text): int(number) for text, number in found.items()}


def _is_byte_level(described: dict[str, Any]) -> bool:
    decoder = described.get("decoder") or {}
    parts = decoder.get("decoders") or [decoder]
    return any(part.get("type") == "ByteLevel" for part in parts)


def _ends(config: dict[str, Any], generation: dict[str, Any], named: int | None) -> frozenset[int]:
    """All that any of the files calls an end: models that chat have several."""
    found: set[int] = set() if named is None else {named}
    for source in (config, generation):
        ids = source.get("eos_token_id")
        found |= {int(number) for number in (ids if isinstance(ids, list) else [ids]) if isinstance(number, int)}
    return frozenset(found)


@cache
def _byte_of_character() -> dict[str, int]:
    """GPT-2's table: printable bytes stand for themselves, the others for what follows U+0100."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {chr(byte): byte for byte in printable}
    others = (byte for byte in range(0x100) if byte not in printable)
    return table | {chr(0x100 + number): byte for number, byte in enumerate(others)}
