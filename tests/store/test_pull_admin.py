"""Pulls in the admin: begun, watched, interrupted and gone on with."""

import html
import os
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client as Browser

from lmsp_site.audit_log import AuditEntry
from models_app import pull_records
from models_app.models import LanguageModel, ModelPull, PullState
from tests import tiny_models
from tests.local_hub import LocalHub
from tests.service import eventually

LIST = "/admin/models_app/modelpull/"


@pytest.fixture
def admin(database: Path) -> Browser:
    """A person who may do everything."""
    browser = Browser(SERVER_NAME="127.0.0.1")
    browser.force_login(User.objects.create_superuser("admin", password=None))
    return browser


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHub]:
    """A hub with one model of 12 MiB, which this process's children ask."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    tiny_models.write_gguf(folder / "tiny.gguf")
    os.truncate(folder / "tiny.gguf", 12 << 20)
    with LocalHub({"someone/tiny": folder}) as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
        yield running
    shutil.rmtree(settings.LMSP.models_dir)
    settings.LMSP.models_dir.mkdir()


def _listed(browser: Browser) -> str:
    return html.unescape(re.sub(r"<[^>]*>", " ", browser.get(LIST).content.decode()))


def _who_has_made(model: LanguageModel) -> tuple[str, str, str]:
    """Return whom the audit log names, and where he was."""
    entry = AuditEntry.objects.get(action="created", subject_id=model.pk)
    return entry.actor_kind, entry.actor, entry.address


def _ended(pull: ModelPull) -> bool:
    return not pull_records.is_carried_out(pull) and ModelPull.objects.get(pk=pull.pk).state != PullState.RUNNING


def test_a_pull_is_begun_and_its_progress_shown(admin: Browser, hub: LocalHub) -> None:
    hub.cut_after = 11 << 20
    assert admin.post(f"{LIST}add/", {"source": "someone/tiny", "name": "tiny", "revision": ""}).status_code == 302
    pull = ModelPull.objects.get()
    eventually(lambda: ModelPull.objects.get().done_bytes, 60, "some has come")
    listed = _listed(admin)
    assert "running" in listed
    assert "10 MB of 13 MB" in listed
    (row,) = admin.get(f"{LIST}progress/").json()["begun"]
    assert (row["key"], row["state"], row["part"], row["page"]) == (str(pull.pk), "running", 83, "")
    # Nobody would see what goes on.
    assert admin.post(f"{LIST}{pull.pk}/delete/", {"post": "yes"}).status_code == 403
    assert "apache-2.0" in listed
    hub.go_on.set()
    eventually(lambda: _ended(pull), 60, "it has ended")
    pull.refresh_from_db()
    assert (pull.state, pull.error, pull.done_bytes) == (PullState.COMPLETED, "", 12 << 20)
    assert LanguageModel.objects.get().id == "tiny"
    assert _who_has_made(LanguageModel.objects.get()) == ("admin", "admin", "127.0.0.1")
    page = admin.get(f"{LIST}{pull.pk}/change/").content.decode()
    assert f'href="/admin/models_app/languagemodel/{pull.name}/change/"' in page
    assert "Go on" not in page
    assert admin.post(f"{LIST}{pull.pk}/delete/", {"post": "yes"}).status_code == 302
    assert not ModelPull.objects.exists()


def test_a_pull_that_was_interrupted_goes_on(admin: Browser, hub: LocalHub) -> None:
    pull = ModelPull.objects.create(source="someone/tiny", name="tiny")
    hub.cut_after = 11 << 20
    child = pull_records.start(pull)
    parts = settings.LMSP.models_dir.glob
    eventually(lambda: [part.stat().st_size for part in parts(".pull-*/*.part")] == [10 << 20], 60)
    assert "No pull goes on" in _go_on(admin, pull)
    os.kill(child, signal.SIGKILL)
    eventually(lambda: "interrupted" in _listed(admin))
    assert "what has come is kept" in admin.get(f"{LIST}progress/").json()["begun"][0]["note"]
    # By the button of its page, as by the list.
    assert admin.post(f"{LIST}{pull.pk}/go-on/").status_code == 302
    assert "someone/tiny goes on." in _listed(admin)
    assert AuditEntry.objects.filter(action="changed", detail={"done": "gone on with"}, actor="admin").exists()
    eventually(lambda: _ended(pull), 60, "it has ended")
    assert hub.transfers() == [None, f"bytes={10 << 20}-"]
    assert LanguageModel.objects.get().id == "tiny"
    assert _who_has_made(LanguageModel.objects.get()) == ("admin", "admin", "127.0.0.1")


def test_a_pull_that_fails_says_why(admin: Browser, hub: LocalHub) -> None:
    admin.post(f"{LIST}add/", {"source": "someone/unknown", "name": "x"})
    pull = ModelPull.objects.get()
    eventually(lambda: _ended(pull), 60, "it has ended")
    assert "The hub has no someone/unknown" in _listed(admin)


@pytest.mark.parametrize(
    "fields",
    [
        {"source": "http://example.org/x"},
        {"source": "../../etc/passwd"},
        {"source": "someone/tiny:../../x"},
        {"source": "--help"},
        {"source": "someone/tiny\x1b[0m"},
        {"name": "../x"},
        {"name": "-x"},
        {"revision": "--token"},
    ],
    ids=["address", "path", "file-outside", "option", "control", "name-outside", "name-option", "revision-option"],
)
def test_what_names_no_repository_is_refused(admin: Browser, fields: dict[str, str]) -> None:
    page = admin.post(f"{LIST}add/", {"source": "someone/tiny", "name": "tiny", "revision": "", **fields})
    assert page.status_code == 200
    assert "errorlist" in page.content.decode()
    assert not ModelPull.objects.exists()


def _go_on(browser: Browser, pull: ModelPull) -> str:
    browser.post(LIST, {"action": "go_on", "_selected_action": [pull.pk]})
    return _listed(browser)
