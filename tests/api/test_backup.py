"""`manage.py backup` and `restore` without a service: what they refuse, and what they leave behind."""

import sqlite3
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.api.test_commands import answer, refusal, run
from tests.api.test_recover_tasks import _running_workers
from tests.service import Service

_FILLING_MB = 60


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A data directory with one client and no task."""
    directory = tmp_path / "data"
    answer(run(directory, "create_client", "tests", "--json"))
    return directory


@pytest.fixture
def file(data_dir: Path, tmp_path: Path) -> Path:
    """A backup of it."""
    path = tmp_path / "backup.sqlite3"
    answer(run(data_dir, "backup", str(path), "--json"))
    return path


def _sql(database: Path, statement: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(database, timeout=20)) as connection, connection:
        return connection.execute(statement).fetchall()


@contextmanager
def _written_to(database: Path) -> Iterator[list[float]]:
    """Somebody who commits all the time; yields how long each commit took, in seconds."""
    took: list[float] = []
    stop = threading.Event()

    def write() -> None:
        with closing(sqlite3.connect(database, timeout=20, isolation_level=None)) as connection:
            while not stop.is_set():
                began = time.perf_counter()
                connection.execute("UPDATE service_config SET name = name || '.' WHERE length(name) < 90")
                connection.execute("UPDATE service_config SET max_attempts = max_attempts + 1")
                took.append(time.perf_counter() - began)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield took
    finally:
        stop.set()
        writer.join()


def test_a_backup_is_the_first_command_that_works(tmp_path: Path) -> None:
    file = tmp_path / "empty.sqlite3"
    made = answer(run(tmp_path / "data", "backup", str(file), "--json"))
    assert made.keys() == {"file", "bytes", "seconds", "tasks", "events", "violations"}
    assert made["bytes"] == file.stat().st_size
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    # One file, whole by itself, and nothing beside it.
    assert {path.name for path in tmp_path.iterdir()} == {"data", "empty.sqlite3"}
    assert _sql(file, "PRAGMA journal_mode") == [("delete",)]
    assert _sql(file, "PRAGMA integrity_check") == [("ok",)]


def test_a_file_that_is_there_is_replaced_by_force_alone(data_dir: Path, file: Path) -> None:
    before = file.read_bytes()
    assert "--force" in refusal(run(data_dir, "backup", str(file)))
    assert file.read_bytes() == before
    run(data_dir, "create_client", "another")
    answer(run(data_dir, "backup", str(file), "--force", "--json"))
    assert _sql(file, "SELECT count(*) FROM clients") == [(2,)]


def test_a_backup_that_cannot_be_written_is_refused(data_dir: Path, tmp_path: Path) -> None:
    assert "cannot be written" in refusal(run(data_dir, "backup", str(tmp_path / "nowhere" / "backup.sqlite3")))
    assert "cannot be written" in refusal(run(data_dir, "backup", str(tmp_path)))
    assert "the database itself" in refusal(run(data_dir, "backup", str(data_dir / "db.sqlite3"), "--force"))


def test_what_breaks_a_rule_is_copied_and_told(data_dir: Path, tmp_path: Path) -> None:
    _sql(data_dir / "db.sqlite3", "DROP TRIGGER unfinished_tasks_are_not_deleted")
    file = tmp_path / "backup.sqlite3"
    done = run(data_dir, "backup", str(file))
    assert done.returncode == 1
    assert "unfinished_tasks_are_not_deleted" in done.stderr
    assert _sql(file, "SELECT count(*) FROM clients") == [(1,)]


def test_a_backup_ends_while_somebody_writes_all_the_time_and_holds_nobody_up(data_dir: Path, tmp_path: Path) -> None:
    database = data_dir / "db.sqlite3"
    _sql(database, "CREATE TABLE filling (text TEXT)")
    _sql(
        database,
        f"INSERT INTO filling WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
        f" WHERE i < {_FILLING_MB * 1024}) SELECT hex(randomblob(500)) FROM n",
    )
    file = tmp_path / "backup.sqlite3"
    with _written_to(database) as took:
        answer(run(data_dir, "backup", str(file), "--json"))
    assert file.stat().st_size > _FILLING_MB << 20
    assert len(took) > 100
    assert sorted(took)[len(took) // 2] < 0.1
    assert max(took) < 5


def test_a_restore_into_nothing_keeps_nothing(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    restored = answer(run(other, "restore", str(file), "--json"))
    assert (restored["kept"], restored["tasks"], restored["unfinished"], restored["models_missing"]) == (
        None,
        0,
        [],
        [],
    )
    assert _sql(other / "db.sqlite3", "SELECT name FROM clients") == [("tests",)]
    assert stat.S_IMODE((other / "db.sqlite3").stat().st_mode) == 0o600
    assert not [path.name for path in other.iterdir() if path.name.startswith((".", "db.sqlite3-", "db.sqlite3."))]
    # New databases get these once; a restored one must have them too.
    assert answer(run(other, "check_log", "--json"))["violations"] == []
    assert _sql(other / "db.sqlite3", "PRAGMA auto_vacuum") == [(2,)]
    assert _sql(other / "db.sqlite3", "PRAGMA journal_mode") == [("wal",)]


def test_a_database_with_something_in_it_is_replaced_by_force_alone_and_kept(data_dir: Path, file: Path) -> None:
    run(data_dir, "create_client", "later")
    assert "holds 0 tasks and 2 clients" in refusal(run(data_dir, "restore", str(file)))
    kept = Path(answer(run(data_dir, "restore", str(file), "--force", "--json"))["kept"])
    assert kept.name.startswith("db.sqlite3.before-restore-")
    assert _sql(kept, "SELECT count(*) FROM clients") == [(2,)]
    assert _sql(data_dir / "db.sqlite3", "SELECT count(*) FROM clients") == [(1,)]


def test_a_damaged_database_is_replaced_and_kept_with_its_log(data_dir: Path, file: Path) -> None:
    database = data_dir / "db.sqlite3"
    damaged = b"no database" * 1000
    database.write_bytes(damaged)
    database.with_name("db.sqlite3-wal").write_bytes(b"its log")
    assert "cannot be read" in refusal(run(data_dir, "restore", str(file)))
    kept = Path(answer(run(data_dir, "restore", str(file), "--force", "--json"))["kept"])
    assert kept.read_bytes() == damaged
    assert _sql(database, "SELECT name FROM clients") == [("tests",)]
    assert answer(run(data_dir, "check_log", "--json"))["violations"] == []


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda file: file.write_text("a letter"), "not a database"),
        (lambda file: file.write_bytes(file.read_bytes()[:40_000]), ""),
        (lambda file: file.unlink(), "is no backup"),
        (lambda file: (file.unlink(), _sql(file, "CREATE TABLE t (x)")), "not one of this service"),
        (
            lambda file: _sql(
                file,
                "INSERT INTO django_migrations (app, name, applied) VALUES ('tasks_app', '9999_later', '2030-01-01')",
            ),
            "newer version's: this one does not know tasks_app.9999_later",
        ),
    ],
    ids=["text", "truncated", "missing", "foreign", "newer"],
)
def test_what_is_no_backup_changes_nothing(data_dir: Path, file: Path, spoil: object, says: str) -> None:
    assert callable(spoil)
    spoil(file)
    run(data_dir, "create_client", "later")
    message = refusal(run(data_dir, "restore", str(file), "--force"))
    assert says in message
    assert _sql(data_dir / "db.sqlite3", "SELECT count(*) FROM clients") == [(2,)]
    assert not [path for path in data_dir.iterdir() if "before-restore" in path.name or path.name.startswith(".")]


def test_a_restore_is_refused_beside_a_worker_and_beside_whoever_has_the_database_open(
    data_dir: Path, file: Path
) -> None:
    service = Service(data_dir)
    with _running_workers(service):
        assert "1 workers run" in refusal(run(data_dir, "restore", str(file), "--force"))
    with closing(sqlite3.connect(data_dir / "db.sqlite3")) as reader:
        reader.execute("SELECT count(*) FROM clients").fetchone()
        assert "open in another process" in refusal(run(data_dir, "restore", str(file), "--force"))
    answer(run(data_dir, "restore", str(file), "--force", "--json"))


def test_a_raw_copy_with_its_log_can_be_restored(data_dir: Path, tmp_path: Path) -> None:
    """What an operator has copied by hand: the file and, beside it, the log with the last commits."""
    database, copy = data_dir / "db.sqlite3", tmp_path / "copy.sqlite3"
    with closing(sqlite3.connect(database)) as reader:
        reader.execute("SELECT 1 FROM clients").fetchone()
        run(data_dir, "create_client", "in the log")
        for suffix in ("", "-wal"):
            Path(f"{copy}{suffix}").write_bytes(Path(f"{database}{suffix}").read_bytes())
    other = tmp_path / "other"
    answer(run(other, "restore", str(copy), "--json"))
    assert _sql(other / "db.sqlite3", "SELECT count(*) FROM clients") == [(2,)]
