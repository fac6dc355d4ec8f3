"""What lies in ``models/`` is registered where it is, by the checks of a copy; nothing else can be named."""

import hashlib
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from lmsp_site.audit_log import AuditEntry
from models_app import additions, adopting, importing, listing, removing, shelf, verifying
from models_app.models import FileState, LanguageModel
from models_app.refusals import CannotRegister
from tests import hostile_models, tiny_models
from tests.service import eventually
from tests.store.pairings import PERSON


@pytest.fixture(autouse=True)
def models(database: Path) -> Iterator[Path]:
    """The directory of this process's model files, empty before and after."""
    directory = Path(settings.LMSP.models_dir)
    assert list(directory.iterdir()) == []
    yield directory
    shutil.rmtree(directory)
    directory.mkdir()
    for left in settings.LMSP.run_dir.glob("adding-*"):
        left.unlink()


def test_a_file_is_registered_where_it_is(models: Path, tmp_path: Path) -> None:
    (file,) = tiny_models.write_gguf(models / "My model.GGUF", license="mit")
    before, told = file.stat(), [0]

    def on_start(total: int) -> Callable[[int], None]:
        told.append(-total)
        return told.append

    model = adopting.register("My model.GGUF", "mine", actor=PERSON, aliases=["m"], on_start=on_start)
    assert len(told) > 2
    assert sum(told) == 0, "every byte was told of"
    assert list(models.iterdir()) == [file]
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    stored = LanguageModel.objects.get()
    assert (stored.file, stored.license, stored.path) == ("My model.GGUF", "mit", file)
    assert stored.digest == f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}"
    assert verifying.is_unchanged(stored)
    assert verifying.verify(stored, anew=True) == FileState.READY
    entry = AuditEntry.objects.get()
    assert (entry.actor_kind, entry.actor, entry.address) == ("admin", PERSON.name, PERSON.address)
    assert (entry.action, entry.subject_id, entry.detail["file"]) == ("created", "mine", "My model.GGUF")
    assert shelf.unregistered() == {}
    copied = importing.register(Path(shutil.copy(file, tmp_path / "a.gguf")), "copy")
    assert listing.describe(model)["same_content_as"] == ["copy"]
    removing.remove(model, PERSON)
    assert list(models.iterdir()) == [copied.path]


def test_parts_in_a_folder_with_another_model(models: Path, tmp_path: Path) -> None:
    folder = models / "someone" / "tiny"
    folder.mkdir(parents=True)
    parts = tiny_models.write_gguf(folder / "big.gguf", split_max_tensors=6)
    (other,) = tiny_models.write_gguf(folder / "other.gguf", seed=1)
    elsewhere = [Path(shutil.copy(part, tmp_path)) for part in parts]
    assert list(shelf.unregistered()) == [f"someone/tiny/{file.name}" for file in (parts[0], other)]
    model = adopting.register(f"someone/tiny/{parts[0].name}", "big", actor=PERSON)
    adopting.register("someone/tiny/other.gguf", "other", actor=PERSON)
    # Where it lies and what its parts are called have no say in what it is.
    assert model.digest == importing.register(elsewhere[1], "copy").digest
    assert verifying.verify(model, anew=True) == FileState.READY
    parts[1].unlink()
    assert importing.register(elsewhere[0], "big").file_state == FileState.READY
    assert verifying.is_unchanged(LanguageModel.objects.get(pk="big"))
    assert sorted(folder.iterdir()) == sorted([*parts, other])
    removing.remove(LanguageModel.objects.get(pk="big"), PERSON)
    assert list(folder.iterdir()) == [other]
    assert verifying.is_unchanged(LanguageModel.objects.get(pk="other"))
    removing.remove(LanguageModel.objects.get(pk="other"), PERSON)
    assert [path.name for path in models.iterdir()] == ["copy"]


def test_parts_beside_other_models(models: Path) -> None:
    parts = tiny_models.write_gguf(models / "big.gguf", split_max_tensors=6)
    (other,) = tiny_models.write_gguf(models / "other.gguf", seed=1)
    removing.remove(adopting.register(parts[0].name, "big", actor=PERSON), PERSON)
    assert list(models.iterdir()) == [other]


def test_a_folder_is_registered_where_it_is(models: Path) -> None:
    tiny_models.write_folder(models / "exl", quantization_config={"quant_method": "exl2", "bits": 4.5})
    model = adopting.register("exl", "mine", actor=PERSON)
    assert (model.engine, model.file, model.quantization) == ("exllamav2", "exl", "EXL2 4.5")
    assert verifying.verify(model, anew=True) == FileState.READY
    # What is put into it later is a part of a model's folder, which goes with the model.
    tiny_models.write_gguf(models / "exl" / "later.gguf")
    assert shelf.unregistered() == {}
    removing.remove(model, PERSON)
    assert list(models.iterdir()) == []


def test_what_is_listed(models: Path, tmp_path: Path) -> None:
    (outside,) = tiny_models.write_gguf(tmp_path / "outside.gguf")
    importing.register(outside, "registered")
    (models / "link.gguf").symlink_to(outside)
    (models / "linked").symlink_to(tmp_path)
    (models / ".hidden.gguf").touch()
    (models / "line\nfeed.gguf").touch()
    (models / os.fsdecode(b"\xff.gguf")).touch()
    (models / "notes.txt").touch()
    (models / "pipe.gguf").mkdir()
    os.mkfifo(models / "fifo.gguf")
    for draft in (".incoming-x", ".pull-x"):
        (models / draft).mkdir()
        (models / draft / "a.gguf").touch()
    (models / "later-00002-of-00002.gguf").touch()
    (models / "cut-00001-of-00002.gguf").touch()
    (models / "good.gguf").write_bytes(b"12345")
    folder = tiny_models.write_folder(models / "folder")
    (folder / "vocab.json").symlink_to("/etc/passwd")
    found = shelf.unregistered()
    problems = {name: candidate.problem for name, candidate in found.items()}
    assert problems.keys() == {"cut-00001-of-00002.gguf", "folder", "good.gguf"}
    assert (problems["good.gguf"], found["good.gguf"].size) == ("", 5)
    assert "cut-00002-of-00002.gguf is not beside it" in problems["cut-00001-of-00002.gguf"]
    assert "vocab.json of folder is a link" in problems["folder"]
    with pytest.raises(CannotRegister, match="is a link"):
        adopting.register("folder", "x", actor=PERSON)


HOSTILE = {
    "nothing": "",
    "here": ".",
    "up": "../models/good.gguf",
    "up-inside": "sub/../good.gguf",
    "dotted": "./good.gguf",
    "elsewhere": "/etc/passwd",
    "null": "good.gguf\0",
    "line-feed": "good.gguf\n",
    "escape": "\x1b[31mgood.gguf",
    "link-out": "link.gguf",
    "through-a-link": "linked/outside.gguf",
    "draft": ".incoming-x/a.gguf",
    "not-there": "other.gguf",
    "a-models": "registered.gguf",
}


@pytest.mark.parametrize("kind", [*HOSTILE, "absolute"])
def test_what_is_not_listed_cannot_be_named(models: Path, tmp_path: Path, kind: str) -> None:
    (outside,) = tiny_models.write_gguf(tmp_path / "outside.gguf")
    importing.register(outside, "registered")
    shutil.copy(outside, models / "good.gguf")
    (models / "sub").mkdir()
    (models / ".incoming-x").mkdir()
    shutil.copy(outside, models / ".incoming-x" / "a.gguf")
    (models / "link.gguf").symlink_to(outside)
    (models / "linked").symlink_to(tmp_path)
    name = HOSTILE.get(kind, str(models / "good.gguf"))
    with pytest.raises(CannotRegister, match="no model yet") as refusal:
        adopting.register(name, "x", actor=PERSON)
    assert str(refusal.value).isprintable()
    with pytest.raises(CannotRegister, match="no model yet"):
        additions.start(name, "x", PERSON)
    assert [model.pk for model in LanguageModel.objects.all()] == ["registered"]
    assert additions.listed() == []


@pytest.mark.parametrize(
    ("model_id", "reason"),
    [
        ("../x", "model id has letters"),
        ("a\n", "model id has letters"),
        ("taken", "is taken"),
        ("other", "is an alias"),
    ],
    ids=["path", "control", "taken", "alias"],
)
def test_an_id_that_cannot_be_is_refused(models: Path, tmp_path: Path, model_id: str, reason: str) -> None:
    (file,) = tiny_models.write_gguf(tmp_path / "a.gguf")
    importing.register(file, "taken", aliases=["other"])
    shutil.copy(file, models / "good.gguf")
    with pytest.raises(CannotRegister, match=reason):
        adopting.register("good.gguf", model_id, actor=PERSON)
    with pytest.raises(CannotRegister, match=reason):
        additions.start("good.gguf", model_id, PERSON)
    assert LanguageModel.objects.count() == 1


def test_what_is_no_model_stays_where_it_is(models: Path) -> None:
    content, reason = next(iter(hostile_models.GGUF.values()))
    (models / "bad.gguf").write_bytes(content)
    with pytest.raises(CannotRegister, match=f"(?s)bad.gguf.*({reason})"):
        adopting.register("bad.gguf", "bad", actor=PERSON)
    assert (models / "bad.gguf").read_bytes() == content
    assert not LanguageModel.objects.exists()


def append(file: Path) -> None:
    with file.open("ab") as written:
        written.write(b"\0")


def replace_by_link(file: Path) -> None:
    away = file.rename(file.parent.parent / "away.gguf")
    file.symlink_to(away)


@pytest.mark.parametrize("change", [append, replace_by_link])
def test_what_changes_while_it_is_read_is_refused(models: Path, change: Callable[[Path], None]) -> None:
    (file,) = tiny_models.write_gguf(models / "a.gguf")

    def on_start(_total: int) -> Callable[[int], None]:
        change(file)
        return lambda _count: None

    with pytest.raises(CannotRegister, match=r"written to while|no model yet"):
        adopting.register("a.gguf", "a", actor=PERSON, on_start=on_start)
    assert not LanguageModel.objects.exists()
    (models.parent / "away.gguf").unlink(missing_ok=True)


def test_the_command_leaves_what_lies_there_where_it_is(models: Path) -> None:
    first, second = tiny_models.write_gguf(models / "big.gguf", split_max_tensors=6)
    told = StringIO()
    call_command("add_model", str(second), "--id=big", "--json", stdout=told)
    assert json.loads(told.getvalue())["file"] == first.name
    assert sorted(models.iterdir()) == [first, second]
    assert AuditEntry.objects.get().actor_kind == "command"
    # A second model of the same files has files of its own, as ever.
    call_command("add_model", str(first), "--id=again", "--json", stdout=StringIO())
    assert LanguageModel.objects.get(pk="again").path.parent == models / "again"
    with pytest.raises(CommandError, match="Nobody has begun"):
        call_command("add_model", str(first), "--id=x", "--begun")


def test_what_was_interrupted_can_be_added_again(models: Path) -> None:
    tiny_models.write_gguf(models / "a.gguf")
    child = additions.start("a.gguf", "a", PERSON)
    with pytest.raises(CannotRegister, match="being added already"):
        additions.start("a.gguf", "b", PERSON)
    os.kill(child, signal.SIGKILL)
    eventually(lambda: additions.listed()[0].state == "interrupted", 30, "its end is noticed")
    additions.start("a.gguf", "b", PERSON)
    (addition,) = eventually(
        lambda: [told for told in additions.listed() if told.state not in ("running", "interrupted")], 60, "it ends"
    )
    assert (addition.state, addition.error, addition.part) == ("completed", "", 100)
    assert LanguageModel.objects.get().pk == "b"
    entry = AuditEntry.objects.get()
    assert (entry.actor_kind, entry.actor, entry.address) == ("admin", PERSON.name, PERSON.address)
