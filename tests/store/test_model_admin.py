"""Models in the admin: what may be set for them is checked, and what their files say cannot be changed."""

import html
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.test import Client as Browser

from clients_app.models import Client
from lmsp_site import roles
from lmsp_site.audit_log import AuditEntry
from models_app import importing, naming, verifying
from models_app.models import FileState, LanguageModel
from tasks_app import lifecycle, model_checks
from tasks_app.models import Task
from tests import tiny_models
from tests.service import eventually
from tests.store.pairings import browser, person
from tests.store.tasks import new_task

LIST = "/admin/models_app/languagemodel/"


@pytest.fixture
def admin(database: Path) -> Browser:
    """A person who may do everything."""
    browser = Browser(SERVER_NAME="127.0.0.1")
    browser.force_login(User.objects.create_superuser("admin", password=None))
    return browser


@pytest.fixture
def model(database: Path, tmp_path: Path) -> Iterator[LanguageModel]:
    """A registered model with one alias."""
    (file,) = tiny_models.write_gguf(tmp_path / "a.gguf")
    yield importing.register(file, "tiny", aliases=["small"])
    shutil.rmtree(settings.LMSP.models_dir)
    settings.LMSP.models_dir.mkdir()


def edit(browser: Browser, **fields: str) -> str:
    """Send the form, and return what it is refused for."""
    page = browser.post(f"{LIST}tiny/change/", {"aliases": "small", **fields})
    found = re.findall(r'<ul class="errorlist"[^>]*>(.*?)</ul>', page.content.decode(), re.DOTALL)
    assert (page.status_code == 302) == (not found)
    return html.unescape(" ".join(found))


def test_names_sampling_and_context_are_set(admin: Browser, model: LanguageModel) -> None:
    sampling = {"temperature": 0.5, "top_p": 0.0, "top_k": 40, "min_p": 0.05, "repetition_penalty": 1.1}
    texts = {name: str(value) for name, value in sampling.items()}
    assert edit(admin, aliases="fast, small,fast", max_context_length="200", keep_alive="-1", **texts) == ""
    model.refresh_from_db()
    assert model.sampling == sampling
    assert (model.context_length, model.engine_key) == (200, f"{model.digest}:200")
    page = admin.get(f"{LIST}tiny/change/").content.decode()
    assert all(told in page for told in ("top_k 40", "until another model needs the room"))
    assert naming.find("fast") == naming.find("small") == model
    changes: dict[str, Any] = {}
    for entry in AuditEntry.objects.filter(action="changed"):
        changes |= entry.detail["changes"]
    assert changes.keys() == {"aliases", "sampling", "max_context_length", "keep_alive"}
    assert changes["keep_alive"] == {"from": None, "to": -1}
    assert edit(admin, aliases="") == ""
    model.refresh_from_db()
    assert (model.sampling, model.context_length, model.engine_key) == ({}, 256, model.digest)
    assert naming.find("fast") is None


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"temperature": "2.5"}, "From 0 to 2."),
        ({"temperature": "nan"}, "Enter a number"),
        ({"top_p": "-1"}, "From 0 to 1."),
        ({"top_k": "-1"}, "From 0 to"),
        ({"top_k": "1.5"}, "Enter a whole number"),
        ({"min_p": "1.01"}, "From 0 to 1."),
        ({"repetition_penalty": "0"}, "From 0.01 to 10."),
        ({"keep_alive": "-2"}, "greater than or equal to -1"),
        ({"keep_alive": "soon"}, "Enter a whole number"),
        ({"max_context_length": "257"}, "from 128 to 256"),
        ({"max_context_length": "1"}, "from 128 to 256"),
        ({"aliases": "tiny"}, "is the id of a model"),
        ({"aliases": "../x"}, "cannot be"),
        ({"aliases": "a\x00b"}, "Null characters"),
    ],
    ids=[
        "hot",
        "no-number",
        "negative",
        "top_k-negative",
        "top_k-no-count",
        "min_p-no-share",
        "repetition-zero",
        "kept-negative",
        "kept-no-number",
        "long",
        "short",
        "id",
        "path",
        "null",
    ],
)
def test_what_cannot_be_is_refused(admin: Browser, model: LanguageModel, fields: dict[str, str], reason: str) -> None:
    assert reason in edit(admin, **fields)
    model.refresh_from_db()
    assert (model.sampling, model.max_context_length, model.keep_alive) == ({}, None, None)
    assert naming.find("small") == model


def test_a_forged_form_changes_nothing_else(admin: Browser, model: LanguageModel) -> None:
    forged = {"file": "../../etc/passwd", "digest": "sha256:0", "file_state": "corrupt", "files": "[]"}
    assert edit(admin, **forged) == ""
    after = LanguageModel.objects.get()
    assert all(str(getattr(after, name)) == str(getattr(model, name)) for name in forged)
    assert admin.post(f"{LIST}tiny/delete/", {"id": "x", "post": "yes"}).status_code == 403


def test_what_lies_there_is_added_by_a_child(admin: Browser, model: LanguageModel) -> None:
    models = Path(settings.LMSP.models_dir)
    shutil.copy(model.path, models / "tiny.v2 (1).gguf")
    (models / "bad.gguf").write_bytes(b"GGUF" + b"\0" * 8)
    page = html.unescape(admin.get(f"{LIST}add/").content.decode())
    assert 'value="tiny.v2-1"' in page
    assert "tiny.gguf" not in page
    for name, model_id in (("tiny.v2 (1).gguf", "new"), ("bad.gguf", "bad")):
        assert admin.post(f"{LIST}add/", {"name": name, "model_id": model_id}).status_code == 302

    def ended() -> dict[str, dict[str, Any]] | None:
        told = {row["id"]: row for row in admin.get(f"{LIST}add/progress/").json()["begun"]}
        assert told.keys() == {"new", "bad"}
        return told if all(row["state"] != "running" for row in told.values()) else None

    told = eventually(ended, 60, "both children have ended")
    assert told
    assert (told["new"]["state"], told["new"]["page"]) == ("completed", f"{LIST}new/change/")
    assert "same content as tiny" in told["new"]["note"]
    assert (told["bad"]["state"], told["bad"]["page"]) == ("failed", "")
    assert "bad.gguf is not a model that can be loaded. It is cut off" in told["bad"]["note"]
    page = admin.get(f"{LIST}add/").content.decode()
    assert "It is cut off" in page
    assert 'name="name" value="bad.gguf"' in page, "it can be tried again"
    created = AuditEntry.objects.filter(action="created", subject_id="new").get()
    assert (created.actor_kind, created.actor, created.address) == ("admin", "admin", "127.0.0.1")
    for left in settings.LMSP.run_dir.glob("adding-*"):
        left.unlink()


@pytest.mark.parametrize(
    "name",
    ["", "../secret_key", "/etc/passwd", "a\x1b.gguf", "a\0.gguf", "tiny.gguf", "x" * 301],
    ids=["none", "up", "absolute", "escape", "null", "a-models", "long"],
)
def test_a_forged_name_is_refused_with_the_reason(admin: Browser, model: LanguageModel, name: str) -> None:
    answer = admin.post(f"{LIST}add/", {"name": name, "model_id": "x"})
    assert answer.status_code == 400
    said = html.unescape(answer.content.decode())
    assert any(reason in said for reason in ("belongs to no model yet", "name: "))
    assert LanguageModel.objects.count() == 1


def test_files_are_read_again_when_it_is_asked_for(admin: Browser, model: LanguageModel) -> None:
    good = model.path.read_bytes()
    found = model.path.stat()
    # In place, and as if nothing had been.
    model.path.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    os.utime(model.path, ns=(found.st_atime_ns, found.st_mtime_ns))
    model_checks.verify_on_schedule()
    assert LanguageModel.objects.get().file_state == FileState.READY
    admin.post(LIST, {"action": "verify", "_selected_action": [model.pk]})
    assert "files of tiny are being read" in html.unescape(admin.get(LIST).content.decode())
    eventually(lambda: LanguageModel.objects.get().file_state == FileState.CORRUPT, 60, "it is found out")
    assert "not what was registered" in admin.get(f"{LIST}tiny/change/").content.decode()
    # Nothing runs on it, and the reason is told.
    trial = admin.post(f"{LIST}tiny/try/", {"text": "Hi", "max_output_tokens": "5"})
    assert (trial.status_code, "not what was registered" in trial.json()["error"]) == (503, True)
    model.path.write_bytes(good)
    admin.post(f"{LIST}tiny/verify/")
    eventually(lambda: verifying.is_unchanged(LanguageModel.objects.get()), 60, "they are right again")
    deeds = [entry.detail["done"] for entry in AuditEntry.objects.filter(action="changed")]
    assert deeds == ["verified", "verified"]


def test_a_trial_is_refused_with_the_reason(admin: Browser, model: LanguageModel) -> None:
    said = {"text": "Hi", "max_output_tokens": "5"}
    trial = admin.post(f"{LIST}tiny/try/", said)
    assert (trial.status_code, "does not run" in trial.json()["error"]) == (503, True)
    wrong = admin.post(f"{LIST}tiny/try/", {"text": "Hi", "max_output_tokens": "0"})
    assert (wrong.status_code, "max_output_tokens" in wrong.json()["error"]) == (400, True)
    model.path.unlink()
    assert "is missing" in admin.post(f"{LIST}tiny/try/", said).json()["error"]
    assert "is missing" in admin.get(LIST).content.decode()
    assert not Client.objects.exists()


def test_a_model_in_use_is_not_removed_and_an_idle_one_is_with_its_files(
    admin: Browser, model: LanguageModel, client: Client
) -> None:
    task = new_task(client)
    Task.objects.filter(pk=task.pk).update(model=model.pk)
    path = model.path
    assert admin.post(f"{LIST}tiny/remove/")["Location"] == f"{LIST}tiny/change/"
    refused = html.unescape(admin.get(f"{LIST}tiny/change/").content.decode())
    assert "tiny is in use: 1 unfinished task needs it. Wait for it, or cancel first." in refused
    assert path.is_file()
    lifecycle.cancel(task.pk)
    assert admin.post(f"{LIST}tiny/remove/")["Location"] == LIST
    assert not LanguageModel.objects.exists()
    assert not path.exists()
    (entry,) = AuditEntry.objects.filter(action="deleted")
    assert (entry.actor_kind, entry.actor, entry.subject_id) == ("admin", "admin", "tiny")


def test_an_observer_sees_and_does_nothing(model: LanguageModel) -> None:
    watching = person("watching")
    watching.groups.set(Group.objects.filter(name=roles.OBSERVER))
    opened = browser(watching)
    page = opened.get(f"{LIST}tiny/change/").content.decode()
    assert model.digest in page
    assert "Verify" not in page
    assert "try-text" not in page
    assert f"{LIST}add/" not in opened.get(LIST).content.decode()
    assert opened.get(f"{LIST}add/").status_code == opened.get(f"{LIST}add/progress/").status_code == 403
    assert opened.post(f"{LIST}add/", {"name": "a.gguf", "model_id": "a"}).status_code == 403
    for deed in ("load", "unload", "verify", "try", "remove"):
        assert opened.post(f"{LIST}tiny/{deed}/", {"text": "Hi", "max_output_tokens": "5"}).status_code == 403
    assert not AuditEntry.objects.filter(action="changed").exists()
