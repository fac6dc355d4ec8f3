"""The write-ahead log: a reader who stays makes it grow, which is told; when he has gone, it becomes short again."""

import re
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import httpx

from lmsp_site.wal import LONG_BYTES
from tests.api.bodies import STORY
from tests.api.console import piped
from tests.service import Service, eventually

# A look of the supervisor, every 3 s, and some time for a machine that is busy with tests.
BOUND_SECONDS = 3 + 7
_TOLD = "write-ahead log cannot be shortened"

_READER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN")
connection.execute("SELECT count(*) FROM tasks").fetchone()
print("reading", flush=True)
sys.stdin.read()
"""


@contextmanager
def _long_reader(service: Service) -> Iterator[int]:
    """A process that reads one state of the database for as long as the block takes; its id."""
    command = [sys.executable, "-c", _READER, str(service.data_dir / "db.sqlite3")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"reading\n"
        yield reader.pid
        reader.kill()


@contextmanager
def _short_readers(service: Service, number: int) -> Iterator[None]:
    """Readers that come and go, so that there is hardly a moment without one."""
    stop = threading.Event()

    def read() -> None:
        with closing(sqlite3.connect(service.data_dir / "db.sqlite3", timeout=20, isolation_level=None)) as connection:
            while not stop.is_set():
                connection.execute("SELECT count(*), max(length(data)) FROM task_events").fetchone()

    threads = [threading.Thread(target=read) for _ in range(number)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _size(service: Service) -> int:
    return (service.data_dir / "db.sqlite3-wal").stat().st_size


def _grow(service: Service) -> None:
    """Write until the log is long; what is written is overwritten and fits into one page."""
    with closing(sqlite3.connect(service.data_dir / "db.sqlite3", timeout=20)) as writer:
        writer.execute("CREATE TABLE IF NOT EXISTS ballast (bytes BLOB)")
        while _size(service) < LONG_BYTES + (4 << 20):
            with writer:
                writer.execute("DELETE FROM ballast")
                writer.execute("INSERT INTO ballast VALUES (zeroblob(2000000))")


def test_a_long_reader_is_told_of_and_the_log_is_short_again_when_he_has_gone(own_service: Service) -> None:
    task = own_service.create(STORY, max_output_tokens=400)["id"]
    eventually(lambda: own_service.text_on_disk(task), 60)
    with _long_reader(own_service) as pid:
        _grow(own_service)
        eventually(lambda: _TOLD in own_service.log.read_text(), 2 * BOUND_SECONDS)
        (line,) = [line for line in own_service.log.read_text().splitlines() if _TOLD in line]
        assert f"{pid} (" in line
        ready = httpx.get(f"{own_service.url}/readyz", verify=False)
        assert ready.status_code == 200
        database = ready.json()["checks"]["database"]
        assert database["ok"]
        # The service may write on meanwhile.
        (told,) = re.findall(r"(\d+) MB", database["detail"])
        assert LONG_BYTES >> 20 <= int(told) <= _size(own_service) >> 20
        assert "write-ahead log" in piped(own_service.data_dir, "status").stdout
        looks = time.monotonic()
        eventually(lambda: time.monotonic() > looks + 7, 10)
        assert own_service.log.read_text().count(_TOLD) == 1
        assert _size(own_service) > LONG_BYTES
    left = time.monotonic()
    with _short_readers(own_service, 2):
        eventually(lambda: _size(own_service) < LONG_BYTES, BOUND_SECONDS)
        assert time.monotonic() - left < BOUND_SECONDS
        eventually(lambda: "write-ahead log is short again" in own_service.log.read_text(), BOUND_SECONDS)
    assert httpx.get(f"{own_service.url}/readyz", verify=False).json()["checks"]["database"]["detail"] is None
    own_service.request("POST", f"/v1/tasks/{task}/cancel")
    own_service.settle()
    own_service.check_log()
