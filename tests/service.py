"""The real service as a test sees it: a process tree, a data directory, and HTTP."""

import atexit
import functools
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx

REPOSITORY = Path(__file__).resolve().parent.parent
MODEL = "smollm2-135m-instruct"
T = TypeVar("T")


def demo_model() -> Path:
    """Return the demo model's file, which `make test` has fetched."""
    default = REPOSITORY / ".cache" / "demo-model" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    path = Path(os.environ.get("LMSP_TEST_MODEL", default))
    assert path.is_file(), f"{path} is missing: run `make test`, which fetches it"
    return path


def eventually(condition: Callable[[], T], timeout: float = 30.0, what: str = "") -> T:
    """Return the first true value of `condition`, or fail after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {timeout} s: {what or condition}"
        time.sleep(0.01)
    return value


def free_port() -> int:
    """Return a port that nobody listens on at this moment."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Service:
    """`manage.py serve` on a data directory of its own."""

    def __init__(self, data_dir: Path, **environment: str) -> None:
        self.data_dir = data_dir
        self.port = free_port()
        self.environment = {
            **os.environ,
            "LMSP_DATA_DIR": str(data_dir),
            "LMSP_PORT": str(self.port),
            "LMSP_HOST": "127.0.0.1",
            "LMSP_LOG_LEVEL": "INFO",
            # Two threads of one engine starve each other where tests use the same cores.
            "LMSP_ENGINE_THREADS": "1",
            # A service that starts some hundred times need not be compiled each time.
            "PYTHONDONTWRITEBYTECODE": "",
            **environment,
        }
        self.log = data_dir.parent / f"{data_dir.name}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.token = ""
        self.client_id = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        assert not (self.data_dir / "db.sqlite3").exists(), "what was there would be overwritten"
        template = _with_model_and_client()
        shutil.copytree(template.data_dir, self.data_dir, copy_function=_copy_but_link_models, dirs_exist_ok=True)
        self.token, self.client_id = template.token, template.client_id
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def manage(self, *arguments: str, check: bool = True) -> dict[str, Any]:
        """Run a management command and return its JSON object."""
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments, "--json"],
            cwd=REPOSITORY,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert not check or done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def start(self, *, ready: bool = True) -> None:
        """Start the service and, unless told otherwise, wait until it is ready."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "serve"],
                cwd=REPOSITORY,
                env=self.environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        if ready:
            eventually(self.is_ready, 60, f"the service is ready; its log: {self.log}")

    def is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"serve has ended: {self.log.read_text()[-3000:]}"
        try:
            return httpx.get(f"{self.url}/readyz", timeout=5, verify=False).status_code == 200
        except httpx.TransportError:
            return False

    def kill(self) -> None:
        """Kill the supervisor with -9; its children go with it."""
        assert self.process is not None
        before = self.processes()
        self.process.kill()
        self.process.wait()
        # Who has no memory any more may still have files open, and SQLite's locks with them.
        eventually(lambda: not any(map(_runs, before)), 10, "every process of the service is gone")
        eventually(lambda: not self.processes(), 10, "and none has been started meanwhile")

    def stop(self) -> None:
        """Stop the service as an operator does."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)

    def processes(self) -> list[int]:
        """Return the ids of all processes that serve this data directory."""
        marker = f"LMSP_DATA_DIR={self.data_dir}".encode()
        found = []
        for directory in Path("/proc").iterdir():
            if directory.name.isdigit() and int(directory.name) != os.getpid():
                try:
                    if marker in (directory / "environ").read_bytes().split(b"\0"):
                        found.append(int(directory.name))
                except OSError:
                    continue
        return found

    def pair(self, name: str, *scopes: str) -> str:
        """Pair another client, with every scope unless told otherwise, and return its token."""
        granted = ["--scopes", ",".join(scopes)] if scopes else []
        token: str = self.manage("create_client", name, *granted)["token"]
        return token

    def http(self, *, token: str | None = None, **options: Any) -> httpx.Client:
        """Return an HTTP client with this service's address and a token: its first client's, or another's."""
        headers = {"Authorization": f"Bearer {token or self.token}"}
        # Nothing here is encrypted: reading the certificates of the world would take longer than the call.
        return httpx.Client(base_url=self.url, headers=headers, timeout=60, verify=False, **options)

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        with self.http() as http:
            return http.request(method, path, **options)

    def create(self, text: str = "Say hello.", **fields: Any) -> dict[str, Any]:
        """Create a task, greedy unless told otherwise, and return it."""
        body = {"model": MODEL, "input": text, "temperature": 0, **fields}
        answer = self.request("POST", "/v1/tasks", json=body)
        assert answer.status_code == 202, answer.text
        task: dict[str, Any] = answer.json()
        return task

    def task(self, task_id: str) -> dict[str, Any]:
        answer = self.request("GET", f"/v1/tasks/{task_id}")
        assert answer.status_code == 200, answer.text
        task: dict[str, Any] = answer.json()
        return task

    def finished(self, task_id: str, timeout: float = 120) -> dict[str, Any]:
        """Wait for the task to finish and return it."""
        return eventually(
            lambda: (task := self.task(task_id))["finished_at"] and task, timeout, f"{task_id} has finished"
        )

    def events(self, task_id: str) -> list[dict[str, Any]]:
        """Return the whole log of a task over the JSON pages."""
        events: list[dict[str, Any]] = []
        while True:
            after = {"after": events[-1]["sequence_number"]} if events else {}
            page = self.request("GET", f"/v1/tasks/{task_id}/events", params={"limit": 1000, **after}).json()
            events += page["data"]
            if not page["has_more"]:
                return events

    def sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run one statement on the database, beside the service."""
        with closing(sqlite3.connect(self.data_dir / "db.sqlite3", timeout=20)) as connection, connection:
            return connection.execute(statement, values).fetchall()

    def text_on_disk(self, task_id: str) -> str:
        """Return the joined deltas of a task, read beside (or without) the service."""
        rows = self.sql(
            "SELECT data FROM task_events WHERE task_id = ? AND type = 'response.output_text.delta'"
            " ORDER BY sequence_number",
            task_id,
        )
        return "".join(json.loads(data)["delta"] for (data,) in rows)

    def kill_child(self, name: str) -> None:
        """Kill -9 every process of the service whose command line holds `name`."""
        victims = [pid for pid in self.processes() if name.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()]
        assert victims, f"no process of the service is called {name}"
        for pid in victims:
            os.kill(pid, signal.SIGKILL)

    def settle(self, *, but_for: str = "") -> None:
        """Wait until no task but one is unfinished and no job is waiting, so that nothing changes by itself."""
        busy = (
            "SELECT (SELECT count(*) FROM tasks WHERE finished_at IS NULL AND id != ?)"
            " + (SELECT count(*) FROM django_q_ormq)"
        )
        eventually(lambda: self.sql(busy, but_for) == [(0,)], 60, "the service is idle")

    def check_log(self) -> dict[str, Any]:
        """Return the audit's findings; fail on any violation."""
        findings = self.manage("check_log", check=False)
        assert findings["violations"] == []
        return findings


@functools.cache
def _with_model_and_client() -> Service:
    """Return what every service starts from, made once by the commands that an operator would use."""
    made = Service(Path(tempfile.mkdtemp(prefix="lmsp-tests-template-")))
    atexit.register(shutil.rmtree, made.data_dir, ignore_errors=True)
    made.manage("add_model", str(demo_model()), "--id", MODEL)
    paired = made.manage("create_client", "tests")
    made.token, made.client_id = paired["token"], paired["client_id"]
    return made


def _copy_but_link_models(source: str, target: str) -> None:
    # A link cannot reach another file system.
    same = Path(source).stat().st_dev == Path(target).parent.stat().st_dev
    if same and source.endswith(".gguf"):
        os.link(source, target)
    else:
        shutil.copy2(source, target)


def _runs(pid: int) -> bool:
    """Tell whether there is a process that does not only wait to be reaped."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"
