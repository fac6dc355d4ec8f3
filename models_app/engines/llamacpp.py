"""llama.cpp: its library, model files and vocabularies.

The only module that imports `llama_cpp`, and only when it is first needed. Everything uses the low-level C API;
`llamacpp_context` builds decoding on what this module hands out.
"""

import ctypes
import functools
import importlib
import importlib.util
import logging
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from models_app.engines.base import LoadError

_log = logging.getLogger(__name__)

_LOG_LEVELS = {3: logging.WARNING, 4: logging.ERROR}
"""llama.cpp's levels that are passed on; below them it narrates."""

_OVERFLOW = -(2**31)

_ALL_LAYERS = 999

_SPIN_COUNT = "300"
"""How long threads of a decode spin before they sleep, waiting for each other some 500 times in each decode.

OpenMP's default spins for milliseconds: 0 to 3 tokens a second where other processes want both cores, against 15 to
20 with this and 23 with one thread. Never to spin costs half of the speed of a quiet machine, this a tenth.
"""


_first = threading.Lock()


def library() -> Any:
    """The C API (`llama_cpp.llama_cpp`), with its log going to `logging` instead of stderr."""
    # A web server's first requests come at once, each in a thread of its own.
    with _first:
        return _initialized_library()


@functools.cache
def _initialized_library() -> Any:
    os.environ.setdefault("GOMP_SPINCOUNT", _SPIN_COUNT)
    # Where it gives up it would start a debugger first, for seconds, while everybody waits.
    os.environ.setdefault("GGML_NO_BACKTRACE", "1")
    bindings = _import_bindings()
    bindings.llama_log_set(_log_callback(bindings), None)
    bindings.llama_backend_init()
    return bindings


def _import_bindings() -> ModuleType:
    """Import the bindings without running their package's `__init__`.

    It would import the high-level class, numpy and jinja2: 26 MiB and 100 ms in every process that only wants to
    tokenize. The bare package is forgotten again, so that anybody else's `import llama_cpp` finds a whole one.
    """
    if "llama_cpp" in sys.modules:
        return importlib.import_module("llama_cpp.llama_cpp")
    package_spec = importlib.util.find_spec("llama_cpp")
    if package_spec is None:
        raise LoadError("llama-cpp-python is not installed", "engine_not_installed")
    sys.modules["llama_cpp"] = importlib.util.module_from_spec(package_spec)
    try:
        return importlib.import_module("llama_cpp.llama_cpp")
    finally:
        del sys.modules["llama_cpp"]


_recent_errors: deque[str] = deque(maxlen=3)
_silent = False


@functools.cache  # the library keeps the pointer: it must never be collected
def _log_callback(bindings: ModuleType) -> Any:
    def forward(level: int, text: bytes, _user_data: object) -> None:
        if level not in _LOG_LEVELS or _silent:
            return
        line = text.decode("utf-8", "replace").strip()
        if level == max(_LOG_LEVELS):
            _recent_errors.append(line)
        _log.log(_LOG_LEVELS[level], "%s", line)

    return bindings.llama_log_callback(forward)


def silence(silent: bool) -> None:
    """Drop llama.cpp's messages, or pass them on again: it calls an abort that we asked for an error, in four lines."""
    global _silent  # the library has one log for the whole process
    _silent = silent


def gpu_layers() -> int:
    """How many layers are to go to a GPU: all of them where the library was built for one, else none.

    `LMSP_GPU_LAYERS` names another number, for a GPU that has not room for all.
    """
    if not library().llama_supports_gpu_offload():
        return 0
    wanted = os.environ.get("LMSP_GPU_LAYERS", "")
    if wanted and not wanted.isdecimal():
        raise LoadError(f"LMSP_GPU_LAYERS must be a number of layers, not {wanted!r}", "invalid_setting")
    return int(wanted) if wanted else _ALL_LAYERS


def load_model(
    path: str | Path, *, vocab_only: bool = False, on_progress: Callable[[float], None] | None = None
) -> Any:
    """Load a GGUF file and return llama.cpp's model pointer; `LoadError` says what is wrong with the file."""
    lib = library()
    if not Path(path).is_file():
        raise LoadError(f"{path} is not a file", "model_file_missing")
    params = lib.llama_model_default_params()
    params.vocab_only = vocab_only
    params.n_gpu_layers = 0 if vocab_only else gpu_layers()
    if on_progress is not None:
        report = on_progress

        def keep_loading(progress: float, _user_data: object) -> bool:
            report(progress)
            return True

        params.progress_callback = lib.llama_progress_callback(keep_loading)
    _recent_errors.clear()
    model = lib.llama_model_load_from_file(str(path).encode(), params)
    if not model:
        raise LoadError("; ".join(_recent_errors) or f"llama.cpp cannot load {path}")
    return model


class Vocabulary:
    """The tokens of a loaded model, to text and back. Safe to use from several threads."""

    def __init__(self, model: Any) -> None:
        self._lib = library()
        self._pointer = self._lib.llama_model_get_vocab(model)
        self._pieces: dict[int, bytes] = {}
        self.size: int = self._lib.llama_vocab_n_tokens(self._pointer)

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """Tokenize.

        `add_special` adds what the model wants around a text (BOS). `parse_special` reads the names of special
        tokens in the text as those tokens: never set it for text that a user wrote.
        """
        data = text.encode("utf-8", "replace")
        room = len(data) + 8  # a token is seldom shorter than a byte; special ones are added
        while True:
            buffer = (self._lib.llama_token * room)()
            count: int = self._lib.llama_tokenize(
                self._pointer, data, len(data), buffer, room, add_special, parse_special
            )
            if count >= 0:
                return list(buffer[:count])
            if count == _OVERFLOW:
                raise ValueError("the text is too long to be tokenized")
            room = -count

    def piece(self, token: int) -> bytes:
        """The bytes that the token adds to the text: empty for control tokens, perhaps half a character."""
        piece = self._pieces.get(token)
        if piece is None:
            piece = self._pieces[token] = self._render(token)
        return piece

    def name(self, token: int) -> bytes:
        """The token as it is called, also where it adds nothing to the text."""
        text: bytes | None = self._lib.llama_vocab_get_text(self._pointer, token)
        return text or b""

    def is_end(self, token: int) -> bool:
        """Whether the model ends its turn with this token."""
        return bool(self._lib.llama_vocab_is_eog(self._pointer, token))

    def _render(self, token: int) -> bytes:
        room = 64
        while True:
            buffer = ctypes.create_string_buffer(room)
            length = self._lib.llama_token_to_piece(self._pointer, token, buffer, room, 0, False)
            if length >= 0:
                return buffer.raw[:length]
            room = -length

    def _token_text(self, token: int) -> str:
        text: bytes | None = self._lib.llama_vocab_get_text(self._pointer, token) if token >= 0 else None
        return (text or b"").decode("utf-8", "replace")


class Tokenizer(Vocabulary):
    """The vocabulary and the metadata of a model file, without its weights."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        lib = self._lib
        # Not at the interpreter's exit, when the library may be gone before this object.
        finalizer = weakref.finalize(self, lib.llama_model_free, model)
        finalizer.atexit = False  # type: ignore[misc]
        self.metadata: dict[str, str] = _read_metadata(lib, model)
        """Every scalar of the GGUF header, as text."""
        self.chat_template: str | None = self.metadata.get("tokenizer.chat_template")
        """The Jinja source that turns messages into a prompt."""
        self.bos_token: str = self._token_text(lib.llama_vocab_bos(self._pointer))
        """The text of the begin-of-sequence token, empty if the model has none."""
        self.eos_token: str = self._token_text(lib.llama_vocab_eos(self._pointer))
        """The text of the end-of-sequence token, empty if the model has none."""
        self.special_tokens: list[str] = [
            self._token_text(token) for token in range(self.size) if self._is_special(token)
        ]
        """The names that `encode` reads as tokens of their own with `parse_special`."""
        self.context_length: int = int(
            self.metadata.get(f"{self.metadata.get('general.architecture')}.context_length", 0)
        )
        """Tokens of context that the model was trained for; 0 if the file does not say."""

    def _is_special(self, token: int) -> bool:
        special = self._lib.LLAMA_TOKEN_ATTR_CONTROL | self._lib.LLAMA_TOKEN_ATTR_USER_DEFINED
        return bool(self._lib.llama_vocab_get_attr(self._pointer, token) & special)


def open_tokenizer(path: str | Path) -> Tokenizer:
    """Read the vocabulary of a GGUF file: fast, and small beside the model. `LoadError` if it is none."""
    return Tokenizer(load_model(path, vocab_only=True))


def _read_metadata(lib: Any, model: Any) -> dict[str, str]:
    def read(function: Any, index: int) -> str:
        length = function(model, index, None, 0)
        buffer = ctypes.create_string_buffer(max(length, 0) + 1)
        function(model, index, buffer, len(buffer))
        return buffer.value.decode("utf-8", "replace")

    return {
        read(lib.llama_model_meta_key_by_index, index): read(lib.llama_model_meta_val_str_by_index, index)
        for index in range(lib.llama_model_meta_count(model))
    }
