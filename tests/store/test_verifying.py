"""A file under a model is compared cheaply at every load, and by its digest where it looks changed."""

import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import time_machine
from django.conf import settings
from django.db import connections
from django.utils import timezone

from models_app import importing, tokenizers, verifying
from models_app.models import FileState, LanguageModel
from tasks_app import model_checks
from tests import tiny_models
from tests.service import eventually


@pytest.fixture
def model(database: Path, tmp_path: Path) -> Iterator[LanguageModel]:
    """A registered model of one small file."""
    (file,) = tiny_models.write_gguf(tmp_path / "a.gguf")
    yield importing.register(file, "tiny")
    shutil.rmtree(settings.LMSP.models_dir)
    settings.LMSP.models_dir.mkdir()


def _flip(path: Path) -> None:
    """Change one byte of the weights, in place and without a trace in the time of change."""
    found = path.stat()
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)[0]
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last ^ 1]))
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


def _read_bytes(model: LanguageModel) -> list[float]:
    parts: list[float] = []
    verifying.require_intact(model, parts.append)
    return parts


def _refusal(model: LanguageModel) -> str | None:
    with pytest.raises(verifying.ModelUnusable) as refused:
        verifying.require_intact(LanguageModel.objects.get(pk=model.pk))
    return refused.value.code


def test_what_looks_as_it_did_is_not_read_again(model: LanguageModel) -> None:
    assert verifying.is_unchanged(model)
    assert _read_bytes(model) == []
    model.path.touch()
    assert not verifying.is_unchanged(model)
    assert _read_bytes(model) != []
    assert _read_bytes(LanguageModel.objects.get()) == []


def test_another_content_is_corrupt_until_the_right_one_is_back(model: LanguageModel) -> None:
    digest, good = model.digest, model.path.read_bytes()
    for bad in (good[:-1] + b"\x07", good[:-1], good + b"\0", b""):
        model.path.write_bytes(bad)
        assert _refusal(model) == "model_digest_mismatch"
        # What is known to be another is not read again to be refused again.
        corrupt = LanguageModel.objects.get()
        assert (corrupt.file_state, corrupt.digest) == (FileState.CORRUPT, digest)
        assert _refusal(model) == "model_digest_mismatch"
    model.path.write_bytes(good)
    verifying.require_intact(LanguageModel.objects.get())
    assert LanguageModel.objects.get().file_state == FileState.READY


def test_what_leaves_no_trace_is_found_by_reading(model: LanguageModel) -> None:
    _flip(model.path)
    assert verifying.is_unchanged(model)
    assert verifying.verify(model) == FileState.READY
    assert verifying.verify(model, anew=True) == FileState.CORRUPT
    _flip(model.path)
    assert _refusal(model) == "model_digest_mismatch"
    assert verifying.verify(model, anew=True) == FileState.READY


def test_files_are_read_again_when_that_is_due(model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "LMSP", replace(settings.LMSP, verify_hours=1.0))
    _flip(model.path)
    model_checks.verify_on_schedule()
    assert LanguageModel.objects.get().file_state == FileState.READY, "they were read when they were registered"
    with time_machine.travel(timezone.now() + timedelta(hours=2)):
        model_checks.verify_on_schedule()
    found = LanguageModel.objects.get()
    assert (found.file_state, found.digest) == (FileState.CORRUPT, model.digest)


def test_a_file_that_is_missing_or_leads_out_is_missing(model: LanguageModel, tmp_path: Path) -> None:
    away = model.path.rename(tmp_path / "away")
    assert _refusal(model) == "model_file_missing"
    model.path.symlink_to(away)
    assert _refusal(model) == "model_file_missing"
    model.path.unlink()
    # Within models/ a link may lead wherever it likes.
    inside = settings.LMSP.models_dir / "elsewhere"
    shutil.copy(away, inside)
    model.path.symlink_to(inside)
    verifying.require_intact(LanguageModel.objects.get())
    assert LanguageModel.objects.get().file_state == FileState.READY


def test_each_file_of_several_is_looked_at(database: Path, model: LanguageModel, tmp_path: Path) -> None:
    parts = tiny_models.write_gguf(tmp_path / "s.gguf", split_max_tensors=6)
    split = importing.register(parts[0], "split")
    second = split.paths[1]
    good = second.read_bytes()
    second.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    assert _refusal(split) == "model_digest_mismatch"
    second.unlink()
    assert _refusal(split) == "model_file_missing"
    importing.register(parts[0], "split")
    verifying.require_intact(LanguageModel.objects.get(pk="split"))


def test_a_model_of_an_earlier_version_is_read_at_its_first_load(model: LanguageModel) -> None:
    LanguageModel.objects.update(stamps=[], checked_at=None)
    earlier = LanguageModel.objects.get()
    assert not verifying.is_unchanged(earlier)
    verifying.require_intact(earlier)
    assert verifying.is_unchanged(LanguageModel.objects.get())


def test_one_reads_and_the_others_wait_for_what_he_finds(model: LanguageModel) -> None:
    model.path.touch()
    reading, go_on = threading.Event(), threading.Event()
    readers: list[bool] = []

    def look() -> None:
        mine = False

        def on_progress(part: float) -> None:
            nonlocal mine
            if part:
                mine = True
                reading.set()
                go_on.wait(30)

        verifying.require_intact(LanguageModel.objects.get(), on_progress)
        readers.append(mine)
        connections.close_all()

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    eventually(reading.is_set)
    go_on.set()
    for thread in threads:
        thread.join(30)
    assert sorted(readers) == [False, False, True]


def test_a_vocabulary_of_another_file_is_not_kept(model: LanguageModel, tmp_path: Path) -> None:
    (other,) = tiny_models.write_gguf(tmp_path / "o.gguf", seed=1)
    good = model.path.rename(tmp_path / "good")
    shutil.copy(other, model.path)
    found = tokenizers.of(model)
    assert tokenizers.of(model) is not found
    good.replace(model.path)
    kept = tokenizers.of(model)
    assert kept is not found
    assert tokenizers.of(model) is kept
