"""The bare server as the bench sees it: a process that listens, and ends with the bench."""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

from bench import processes
from bench.service import ServiceError, free_port

PATH = "/tasks"
_PROGRAM = Path(__file__).with_name("bare_insert.py")


class BareServer:
    """`bare_insert.py` on a database of its own."""

    def __init__(self) -> None:
        self.address = ("127.0.0.1", free_port())
        self.token = ""

    def __enter__(self) -> Self:
        self._directory = TemporaryDirectory(prefix="lmsp-bench-bare-")
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(_PROGRAM), self._directory.name, str(self.address[1])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout
        self.token = self._process.stdout.readline().strip()
        if not self.token:
            raise ServiceError("the bare server ended; it has said why on stderr")
        return self

    def __exit__(self, *_: object) -> None:
        processes.end(self._process)
        self._directory.cleanup()
