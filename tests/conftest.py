"""Fixtures of the whole suite: a database of its own for each test, and the real service."""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

# Before Django reads its settings: this process must never touch the data of a service that people use.
_DATA_DIR = Path(tempfile.mkdtemp(prefix="lmsp-tests-"))
os.environ["LMSP_DATA_DIR"] = str(_DATA_DIR)
os.environ["LMSP_LOG_LEVEL"] = "WARNING"
os.environ["DJANGO_SETTINGS_MODULE"] = "lmsp_site.settings"

import django
import httpx
import pytest

django.setup()

from django.conf import settings
from django.core.management import call_command
from django.db import connections

from clients_app.models import Client
from tests.service import Service, demo_model

# Started by a shell in the background, this process ignores Ctrl-C, and everything that it starts would.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _remove_data_dir() -> Iterator[None]:
    yield
    connections.close_all()
    shutil.rmtree(_DATA_DIR, ignore_errors=True)


@pytest.fixture(scope="session")
def _migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with all tables and nothing in them, to be copied."""
    call_command("migrate", verbosity=0)
    connections.close_all()
    template = tmp_path_factory.mktemp("template") / "db.sqlite3"
    shutil.copy(settings.LMSP.database, template)
    return template


@pytest.fixture
def database(_migrated: Path) -> Iterator[Path]:
    """A fresh database file, which this process's Django uses."""
    path = settings.LMSP.database
    connections.close_all()
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    shutil.copy(_migrated, path)
    yield path
    connections.close_all()


@pytest.fixture
def client(database: Path) -> Client:
    """A paired client with every scope."""
    paired, _ = Client.pair("tests", ["models:read", "tasks:read", "tasks:write", "responses:write"])
    return paired


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The real service with the demo model and one client, shared by all tests that leave it as it was."""
    with Service(tmp_path_factory.mktemp("service")) as running:
        yield running


@pytest.fixture(scope="session")
def stranger(service: Service) -> Iterator[httpx.Client]:
    """Another client of the shared service, with every scope and no tasks."""
    with service.http(token=service.pair("stranger")) as http:
        yield http


@pytest.fixture
def own_service(tmp_path: Path) -> Iterator[Service]:
    """A real service of the test's own, to be killed, restarted or filled."""
    with Service(tmp_path / "data") as running:
        yield running


@pytest.fixture(scope="session")
def model_path() -> Path:
    """The demo model's file."""
    return demo_model()
