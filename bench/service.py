"""The service under measurement: the real one, on a data directory of its own."""

import http.client
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Self

from bench import client, processes
from bench.client import Answer
from lmsp_site.processes import ends_with_parent
from models_app.engines.client import HostClient, engine_info

REPOSITORY = Path(__file__).resolve().parent.parent
MODEL = "bench"

_HOST = "127.0.0.1"
_START_TIMEOUT = 60.0
_STOP_TIMEOUT = 60.0
_COMMAND_TIMEOUT = 900.0


class ServiceError(RuntimeError):
    """The service did not do what it must for anything to be measured."""


class Service:
    """`manage.py serve` from its start to its end.

    Args:
        data_dir: an empty directory; the service's log lies beside it.
        model: the model file that it is to run.
        model_id: what the model is called.
        environment: what an operator would set.
    """

    def __init__(self, data_dir: Path, model: Path, model_id: str = MODEL, **environment: str) -> None:
        self.data_dir = data_dir
        self._model_id = model_id
        self.log = data_dir.with_suffix(".log")
        self._model = model
        self.address = (_HOST, free_port())
        self.token = ""
        self._process: subprocess.Popen[bytes] | None = None
        own = {"LMSP_DATA_DIR": str(data_dir), "LMSP_HOST": _HOST, "LMSP_PORT": str(self.address[1])}
        self.environment = clean_environment() | own | environment

    def __enter__(self) -> Self:
        self.token = self.manage("create_client", "bench")["token"]
        self.manage("add_model", str(self._model), "--id", self._model_id)
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "manage.py", "serve"],
                cwd=REPOSITORY,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                # However the bench ends, the service is told to stop.
                preexec_fn=ends_with_parent(signal.SIGTERM),
            )
        try:
            self._wait_until_ready()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def respond(self, prompts: list[list[dict[str, str]]], tokens: int, **fields: Any) -> list[Answer]:
        """Have all prompts answered at once, greedily and streamed, with up to `tokens` tokens each."""
        common = {"model": MODEL, "temperature": 0, "max_output_tokens": tokens, "stream": True, **fields}
        bodies = [{**common, "input": prompt} for prompt in prompts]
        try:
            return client.stream(self.address, "/v1/responses", self.token, bodies, Answer)
        except (client.CallError, OSError) as error:
            errors = "\n".join(line for line in self.log.read_text().splitlines() if "level=ERROR" in line)
            raise ServiceError(f"{error}\n{errors}") from error

    @property
    def database(self) -> Path:
        """The service's database."""
        return self.data_dir / "db.sqlite3"

    def empty_log(self) -> None:
        """Have all of the database in its file, and the write-ahead log empty."""
        with closing(sqlite3.connect(self.database, timeout=20)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    @property
    def model_file(self) -> Path:
        """The service's copy of the model file."""
        (file,) = (self.data_dir / "models").iterdir()
        return file

    def engine(self) -> dict[str, Any]:
        """Return what the engine that is loaded says of itself: threads, slots, context length."""
        (loaded,) = (model for model in HostClient(self.data_dir / "run").list() if model["state"] == "ready")
        address = HostClient(self.data_dir / "run").find(loaded["key"])
        assert address is not None
        return engine_info(address)

    def processes(self, *, memory: bool = False) -> list[processes.Process]:
        """Return the service's processes as they are now."""
        return processes.of_service(self.data_dir, memory=memory)

    @contextmanager
    def workers_stopped(self) -> Iterator[None]:
        """Stop the workers, for less time than after which the service replaces one that hangs."""
        workers = [process.pid for process in self.processes() if process.role == "workers"]
        with closing(sqlite3.connect(self.database, timeout=20, isolation_level=None)) as holder:
            # Who is stopped while it holds the lock would keep it.
            holder.execute("BEGIN IMMEDIATE")
            for pid in workers:
                os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in workers:
                os.kill(pid, signal.SIGCONT)

    def manage(self, *arguments: str, timeout: float = _COMMAND_TIMEOUT) -> dict[str, Any]:
        """Run a command beside the service and return its JSON object.

        Raises:
            subprocess.TimeoutExpired: it took longer than `timeout` seconds, and was killed.
        """
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments, "--json"],
            cwd=REPOSITORY,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if done.returncode:
            raise ServiceError(f"manage.py {arguments[0]} failed: {(done.stderr or done.stdout).strip()[-3000:]}")
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _START_TIMEOUT
        while not self._is_ready():
            if self._process is None or self._process.poll() is not None or time.monotonic() > deadline:
                raise ServiceError(f"the service did not become ready:\n{self.log.read_text()[-3000:]}")
            time.sleep(0.05)

    def _is_ready(self) -> bool:
        connection = http.client.HTTPConnection(*self.address, timeout=5)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(_STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                # Its children end with it.
                self._process.kill()
                self._process.wait()


def in_django(data_dir: Path, module: str, call: str) -> dict[str, Any]:
    """Call something of a module of the bench in a process that has this data directory's Django; return its JSON.

    Raises:
        ServiceError: it failed.
    """
    own = {
        "DJANGO_SETTINGS_MODULE": "lmsp_site.settings",
        "LMSP_DATA_DIR": str(data_dir),
        "LMSP_LOG_LEVEL": "WARNING",
    }
    done = subprocess.run(
        [sys.executable, "-c", f"import django; django.setup(); from bench import {module}; {module}.{call}"],
        cwd=REPOSITORY,
        env=clean_environment() | own,
        capture_output=True,
        text=True,
        timeout=_COMMAND_TIMEOUT,
        check=False,
    )
    if done.returncode:
        raise ServiceError(f"{module}.{call} failed: {done.stderr.strip()[-3000:]}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def clean_environment() -> dict[str, str]:
    """Return what processes inherit: what the caller's shell sets for a service of its own is not this one's."""
    return {name: value for name, value in os.environ.items() if not name.startswith("LMSP_")}


def free_port() -> int:
    """Return a port on which nobody listens."""
    with closing(socket.socket()) as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
        return port
