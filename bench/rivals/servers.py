"""Each rival as a process that listens, with the very model file, context and threads that the service runs with."""

import http.client
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Self

from bench.rivals import environment
from bench.service import ServiceError, free_port

_START_TIMEOUT = 60.0


@dataclass(frozen=True, slots=True)
class Settings:
    """What a rival is to run with."""

    model: Path
    port: int
    threads: int
    parallel: int
    context_length: int


def _xllamacpp(settings: Settings) -> Sequence[str]:
    program = Path(__file__).with_name("xllamacpp_server.py")
    numbers = (settings.port, settings.threads, settings.parallel, settings.context_length)
    return ["-P", str(program), str(settings.model), *map(str, numbers)]


def _llama_cpp_python(settings: Settings) -> Sequence[str]:
    # It has one context, and so serves one request at a time.
    named = {
        "model": settings.model,
        "host": "127.0.0.1",
        "port": settings.port,
        "n_threads": settings.threads,
        "n_threads_batch": settings.threads,
        "n_ctx": settings.context_length,
        # Otherwise a request that comes breaks off the one that runs.
        "interrupt_requests": False,
    }
    return ["-m", "llama_cpp.server", *(part for name, value in named.items() for part in (f"--{name}", str(value)))]


ALL: dict[str, Callable[[Settings], Sequence[str]]] = {
    "xllamacpp": _xllamacpp,
    "llama-cpp-python": _llama_cpp_python,
}


class Rival:
    """A rival's server from its start to its end.

    Args:
        name: one of ``ALL``.
        model: the service's own model file.
        threads: of the computation.
        parallel: how many requests it may run at once.
        context_length: tokens of each.
    """

    def __init__(self, name: str, model: Path, *, threads: int, parallel: int, context_length: int) -> None:
        self.name = name
        self._settings = Settings(model, free_port(), threads, parallel, context_length)
        self.address = ("127.0.0.1", self._settings.port)

    def __enter__(self) -> Self:
        command = [str(environment.python()), *ALL[self.name](self._settings)]
        self._log = TemporaryFile()
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=self._log, stderr=self._log)
        try:
            self._wait_until_it_listens()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    def _wait_until_it_listens(self) -> None:
        deadline = time.monotonic() + _START_TIMEOUT
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._log.seek(0)
                raise ServiceError(f"{self.name} did not start: {self._log.read().decode(errors='replace')[-3000:]}")
            time.sleep(0.1)

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection(*self.address, timeout=5)
        try:
            connection.request("GET", "/v1/models")
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
