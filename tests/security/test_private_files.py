"""Nobody but its owner reads what the service stores."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from lmsp_site import data_dir
from tests.service import REPOSITORY, Service


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def open_to_others(directory: Path) -> list[tuple[str, str]]:
    paths = (directory, *directory.rglob("*"))
    found = [(str(path), f"{mode(path):o}") for path in paths if not path.is_symlink() and mode(path) & 0o077]
    return [entry for entry in found if Path(entry[0]).exists()]


@pytest.fixture
def _umask() -> object:
    """Give this process back what `prepare` changes for it."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_everything_that_a_running_service_makes_is_private(guarded: Service) -> None:
    guarded.finished(guarded.create("Hi", max_output_tokens=3)["id"])
    assert (guarded.data_dir / "db.sqlite3-wal").exists()
    assert (guarded.data_dir / "logs" / "service.log").exists()
    assert open_to_others(guarded.data_dir) == []


def test_what_a_command_makes_is_private_although_its_shell_is_not(tmp_path: Path) -> None:
    data, backup = tmp_path / "data", tmp_path / "backup.sqlite3"
    environment = {**os.environ, "LMSP_DATA_DIR": str(data)}
    for command in (["create_client", "somebody"], ["backup", str(backup)]):
        subprocess.run(
            [sys.executable, "manage.py", *command],
            cwd=REPOSITORY,
            env=environment,
            capture_output=True,
            check=True,
            umask=0o022,
        )
    assert mode(data) == 0o700
    assert open_to_others(data) == []
    assert mode(backup) == 0o600


@pytest.mark.usefixtures("_umask")
def test_what_was_open_is_closed(tmp_path: Path) -> None:
    data_dir.prepare(tmp_path / "data")
    for name in ("secret_key", "db.sqlite3", "db.sqlite3-wal", "logs/service.log"):
        (tmp_path / "data" / name).write_text("x")
    for path in (tmp_path / "data", *(tmp_path / "data").rglob("*")):
        path.chmod(mode(path) | 0o055)
    data_dir.prepare(tmp_path / "data")
    assert open_to_others(tmp_path / "data") == []
    assert mode(tmp_path / "data") == 0o700


@pytest.mark.usefixtures("_umask")
def test_an_empty_directory_becomes_private_and_one_of_somebody_else_stays(tmp_path: Path) -> None:
    empty, shared = tmp_path / "empty", tmp_path / "shared"
    for directory in (empty, shared):
        directory.mkdir(mode=0o755)
    (shared / "letters").mkdir(mode=0o755)
    for directory in (empty, shared):
        data_dir.prepare(directory)
        assert mode(directory / "run") == 0o700
    assert (mode(empty), mode(shared), mode(shared / "letters")) == (0o700, 0o755, 0o755)


@pytest.mark.usefixtures("_umask")
def test_a_link_to_models_that_others_use_is_left_as_it_is(tmp_path: Path) -> None:
    models = tmp_path / "models"
    models.mkdir(mode=0o755)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "models").symlink_to(models)
    data_dir.prepare(tmp_path / "data")
    assert mode(models) == 0o755
