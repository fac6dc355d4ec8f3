"""The raw loop as the bench sees it: a process that is asked for a round and sleeps in between."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

from bench import processes

PROGRAM = Path(__file__).with_name("raw_loop.py")


class RawLoopError(RuntimeError):
    """The raw loop ended; it has said why on stderr."""


class RawLoop:
    """`raw_loop.py` with a model loaded.

    Args:
        model: the model file.
        threads: as many as the service's engine has; so with the other two.
        sequences: how many the context has room for.
        context_length: tokens of each.
    """

    def __init__(self, model: Path, *, threads: int, sequences: int, context_length: int) -> None:
        self._command = [
            *(sys.executable, "-P", str(PROGRAM), str(model)),
            *("--threads", str(threads)),
            *("--sequences", str(sequences)),
            *("--context-length", str(context_length)),
        ]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._read()
        return self

    def __exit__(self, *_: object) -> None:
        processes.end(self._process)

    def tokenize(self, messages: list[dict[str, str]]) -> list[int]:
        """Return the prompt that the model's own template makes of a chat."""
        tokens: list[int] = self._ask({"op": "tokenize", "messages": messages})["tokens"]
        return tokens

    def generate(
        self, prompts: list[list[int]], tokens: int, *, borders: list[list[int]] | None = None
    ) -> dict[str, Any]:
        """Have all prompts decoded side by side; see `raw_loop`."""
        return self._ask({"op": "generate", "prompts": prompts, "tokens": tokens, "borders": borders})

    def cpu(self) -> float:
        """Return the processor time that it has used, in seconds."""
        return processes.cpu_of(self._process.pid)

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise RawLoopError(f"the raw loop ended with status {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer
