"""A disk that becomes full under a running service: refused, told, waited for, and over when there is room again."""

import os
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from tests.api.bodies import body, error, rows
from tests.api.test_admin import submit
from tests.crash.finish_line import BOUND_SECONDS, STORY, check_database, check_end, one_token, state
from tests.service import Service, eventually

_RESERVE_MB = 8
_MB = 1 << 20
_TOKENS = 150


class Disk:
    """A small file system of the test's own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    @property
    def free(self) -> int:
        return shutil.disk_usage(self.path).free

    def fill(self, leave: int = 0) -> None:
        """Leave so many bytes free, and none where the database could write in its own files."""
        for _ in range(50):
            with suppress(sqlite3.OperationalError), closing(sqlite3.connect(self.path / "db.sqlite3")) as connection:
                # What the log has taken before would be written again.
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._take(leave)
            if self.free <= leave and (leave or self._log_bytes() == 0):
                return
        raise AssertionError("the disk does not become full")

    def _take(self, leave: int) -> None:
        with self._ballast.open("ab") as file, suppress(OSError):
            while (room := self.free - leave) > 0:
                os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), room)

    def _log_bytes(self) -> int:
        return (self.path / "db.sqlite3-wal").stat().st_size

    def clear(self) -> None:
        self._ballast.unlink(missing_ok=True)


@contextmanager
def _mounted(path: Path, megabytes: int) -> Iterator[Disk]:
    options = ["-o", f"size={megabytes}m,mode=700"]
    mounted = subprocess.run(["mount", "-t", "tmpfs", *options, "tmpfs", str(path)], capture_output=True, check=False)
    if mounted.returncode:
        # Where nobody sees a test that was passed over, it has to be run.
        assert "CI" not in os.environ, mounted.stderr
        pytest.skip("only root can mount a file system")
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disk]:
    directory = tmp_path_factory.mktemp("disk")
    (directory / "data").mkdir()
    (directory / "models").mkdir()
    with _mounted(directory / "data", 40) as disk:
        # Models are large and not what this is about.
        (disk.path / "models").symlink_to(directory / "models")
        yield disk


@pytest.fixture(scope="module")
def service(disk: Disk) -> Iterator[Service]:
    # The long prompt of each test is to take its time.
    with Service(disk.path, LMSP_MIN_FREE_MB=str(_RESERVE_MB), LMSP_PREFIX_CACHE_MB="0") as service:
        yield service
        disk.clear()


@pytest.fixture
def room(service: Service, disk: Disk) -> Iterator[Service]:
    """The service with room on its disk, before the test and after it."""
    service.settle()
    yield service
    disk.clear()
    service.settle()


@pytest.fixture(scope="module")
def password(service: Service) -> str:
    made: str = service.manage("quickstart")["password"]
    return made


@pytest.fixture(scope="module")
def admin(service: Service, password: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.url, timeout=60, verify=False, follow_redirects=True) as browser:
        submit(browser, "/admin/login/?next=/admin/", username="admin", password=password)
        yield browser


def _refuses_whatever_creates(service: Service) -> None:
    calls: list[Callable[[httpx.Client], httpx.Response]] = [
        lambda http: http.post("/v1/tasks", json=body(), headers={"Idempotency-Key": "full"}),
        lambda http: http.post("/v1/responses", json=body(), headers={"Idempotency-Key": "full"}),
        lambda http: http.post("/v1/responses", json=body(stream=True)),
        lambda http: http.post("/v1/responses", json=body(background=True)),
    ]
    with service.http() as http:
        before = _rows(service)
        for call in calls:
            assert error(call(http), 507)["code"] == "insufficient_storage"
        assert _rows(service) == before


def _rows(service: Service) -> dict[str, int]:
    """Return how many rows each table has that a creating call writes to, but for the events of those who run."""
    strangers = "SELECT count(*) FROM task_events WHERE task_id NOT IN (SELECT id FROM tasks)"
    counted = rows(service)
    del counted["task_events"], counted["task_journal"]
    return {**counted, "events of no task": service.sql(strangers)[0][0]}


def _names_it(service: Service, admin: httpx.Client) -> None:
    ready = httpx.get(f"{service.url}/readyz", timeout=20, verify=False)
    assert (ready.status_code, ready.json()["checks"]["disk"]["ok"]) == (503, False)
    assert ready.json()["checks"]["disk"]["detail"] in admin.get("/admin/").text


def test_below_the_reserve_new_work_is_refused_and_what_runs_finishes(
    room: Service, disk: Disk, admin: httpx.Client
) -> None:
    assert "are free" not in admin.get("/admin/").text
    task = room.create(STORY, max_output_tokens=_TOKENS)["id"]
    eventually(lambda: state(room, task)[1] > 2, 60)
    disk.fill(leave=(_RESERVE_MB - 1) * _MB)
    _refuses_whatever_creates(room)
    _names_it(room, admin)
    assert state(room, task)[0] == "running"
    assert room.finished(task)["status"] == "completed"
    disk.clear()
    assert room.finished(room.create("Hi", max_output_tokens=2)["id"])["status"] == "completed"


def test_tasks_that_find_no_room_wait_and_go_on_when_there_is_some(
    room: Service, disk: Disk, admin: httpx.Client, password: str
) -> None:
    twin = room.finished(room.create(STORY, max_output_tokens=_TOKENS)["id"])
    short_twin = room.finished(one_token(room))
    # At their last commit, in the middle of a text, and being cancelled.
    tasks = [one_token(room, on_restart="fail"), room.create(STORY, max_output_tokens=_TOKENS, on_restart="fail")["id"]]
    eventually(lambda: state(room, tasks[1])[1] > 2, 60)
    assert state(room, tasks[0]) == ("running", 0)
    disk.fill()
    # Each tries again and again, and says so.
    eventually(lambda: all(f'waiting for the storage" task={task}' in room.log.read_text() for task in tasks), 60)
    _refuses_whatever_creates(room)
    _names_it(room, admin)
    refused = room.request("POST", f"/v1/tasks/{tasks[1]}/cancel")
    assert error(refused, 507)["code"] == "insufficient_storage"
    # A login writes; what is only read is shown.
    with httpx.Client(base_url=room.url, timeout=60, verify=False) as browser:
        error(submit(browser, "/admin/login/", username="admin", password=password), 507)
    assert [room.task(task)["status"] for task in tasks] == ["running", "running"]
    disk.clear()
    cleared = time.monotonic()
    eventually(lambda: state(room, tasks[0])[0] == "completed", BOUND_SECONDS)
    assert time.monotonic() - cleared < BOUND_SECONDS
    room.finished(tasks[1])
    check_end(room, tasks[0], short_twin)
    check_end(room, tasks[1], twin)
    check_database(room)


def test_without_a_reserve_what_does_not_fit_leaves_nothing(room: Service, disk: Disk) -> None:
    room.stop()
    room.environment["LMSP_MIN_FREE_MB"] = "0"
    room.start()
    disk.fill()
    _refuses_whatever_creates(room)
    disk.clear()
    # No key was taken by what was refused.
    answer = room.request("POST", "/v1/tasks", json=body(), headers={"Idempotency-Key": "full"})
    assert (answer.status_code, answer.headers.get("Idempotent-Replayed")) == (202, None)
    assert room.finished(answer.json()["id"])["status"] == "completed"
    check_database(room)
