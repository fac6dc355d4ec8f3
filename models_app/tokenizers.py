"""Tokenizers of registered models, opened without loading any weights.

The web process tokenizes a prompt before it accepts a task; it needs no engine for that.
"""

import logging
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Protocol

from lmsp_site.errors import Unavailable
from models_app import verifying
from models_app.engines.base import LoadError
from models_app.models import LanguageModel

logger = logging.getLogger(__name__)


class Tokenizer(Protocol):
    """Text to token ids, as the model's own file defines it."""

    size: int
    """How many tokens there are; ids begin at 0."""

    @property
    def chat_template(self) -> str | None:
        """The model's Jinja template for messages, if its file has one."""

    @property
    def bos_token(self) -> str:
        """The text of the token that begins a sequence; empty if there is none."""

    @property
    def eos_token(self) -> str:
        """The text of the token that ends a sequence; empty if there is none."""

    @property
    def special_tokens(self) -> list[str]:
        """The names of tokens that steer the model, such as those that begin and end a turn."""

    def piece(self, token: int) -> bytes:
        """Return the bytes that a token adds to a text: none for those that only steer the model."""

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """Return the token ids of `text`; `parse_special` reads the names of special tokens as such."""


_KEPT = 4
_kept: OrderedDict[tuple[str, str, str], Tokenizer] = OrderedDict()
# What is kept does not keep callers from opening the same one at the same time.
_opening = threading.Lock()


def of(model: LanguageModel) -> Tokenizer:
    """Return the tokenizer of `model`, opened once per process.

    Raises:
        Unavailable: its file has been removed or damaged since it was registered.
    """
    key = (model.engine, str(model.path), model.digest)
    try:
        with _opening:
            if key in _kept:
                _kept.move_to_end(key)
                return _kept[key]
            known = verifying.is_unchanged(model)
            opened = _open(model.engine, model.path)
            # Of files that are perhaps not what was registered none is kept: they may be put back.
            if known and verifying.is_unchanged(model):
                _kept[key] = opened
                while len(_kept) > _KEPT:
                    _kept.popitem(last=False)
            return opened
    except LoadError as error:
        # What the library says names paths, which are no business of a client.
        logger.error("cannot open the vocabulary", extra={"model": model.id, "error": str(error)})  # noqa: TRY400
        if model.stamps_now() is None:
            raise verifying.missing(model) from error
        if error.code == "engine_unavailable":
            raise Unavailable(f"The model {model.id!r} cannot run here: {error}.", code=error.code) from error
        raise Unavailable(
            f"The file of the model {model.id!r} cannot be read; the service's log says why.",
            code="model_unavailable",
            retry_after=30,
        ) from error


def _open(engine: str, path: Path) -> Tokenizer:
    # Lazily: each imports its library.
    if engine == "llamacpp":
        from models_app.engines import llamacpp

        return llamacpp.open_tokenizer(path)
    if engine == "exllamav2":
        from models_app.engines import hf_tokenizer

        return hf_tokenizer.open_tokenizer(path)
    raise LoadError(f"there is no engine named {engine!r}", "unknown_engine")
