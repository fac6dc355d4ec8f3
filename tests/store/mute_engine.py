"""An engine that lives and stops saying anything: ``mute_engine.py SOCKET WORDS [waiting]``.

The server is the service's own. What it serves admits a request (unless it is to wait), says so many words, and from
then on does nothing for it, as a scheduler would that has lost sight of a sequence.
"""

import os
import sys
import time
from collections.abc import Sequence
from typing import Any

from models_app.engines import wire
from models_app.engines.base import GenerateRequest
from models_app.engines.messages import Admitted, Finished, Message, Tokens
from models_app.engines.server import EngineServer


class Mute:
    fingerprint = "mute"
    slots = 4
    context_length = 512
    is_idle = False
    is_prefilling = False

    def __init__(self, words: int, *, admits: bool) -> None:
        self._words = words
        self._admits = admits
        self._said: list[tuple[int, Message]] = []

    def submit(self, key: int, request: GenerateRequest) -> None:
        if self._admits:
            self._said.append((key, Admitted(0)))
            self._said += [(key, Tokens([100 + n], [n and 1], f"word {n} ")) for n in range(self._words)]

    def prepare(self, prompt: Sequence[int]) -> None:
        """It says nothing."""

    def cancel(self, key: int) -> None:
        self._said.append((key, Finished("cancelled", [], [], "")))

    def step(self) -> list[tuple[int, Message]]:
        time.sleep(0.005)
        said, self._said = self._said, []
        return said

    def info(self) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        pass


if __name__ == "__main__":
    address, words, *waiting = sys.argv[1:]
    listener = wire.listen(address)
    print(os.getpid(), flush=True)
    engine = Mute(int(words), admits=not waiting)
    EngineServer(engine, listener, flush_interval=0, on_pulse=lambda _seconds: None).run()
