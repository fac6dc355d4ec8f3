"""Models of every form are registered whole, with what their files say; what is none is refused and told why."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from django.conf import settings

from lmsp_site.audit_log import AuditEntry
from models_app import digests, importing, inspecting, listing, naming
from models_app.models import LanguageModel
from models_app.refusals import CannotRegister
from tests import hostile_models, tiny_models
from tests.service import REPOSITORY


@pytest.fixture(autouse=True)
def models(database: Path) -> Iterator[Path]:
    """The directory of this process's model files, empty before and after."""
    directory = Path(settings.LMSP.models_dir)
    assert list(directory.iterdir()) == []
    yield directory
    shutil.rmtree(directory)
    directory.mkdir()


def test_a_model_has_what_its_file_says(tmp_path: Path) -> None:
    (file,) = tiny_models.write_gguf(tmp_path / "a.bin", license="mit\n\x1b[31mred", basename="Tiny")
    model = importing.register(file, "someone/tiny", aliases=["tiny"])
    assert model == LanguageModel.objects.get()
    told = listing.describe(model)
    assert told == told | {
        "file": "someone--tiny.gguf",
        "digest": f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}",
        "architecture": "llama",
        "parameter_count": 26848,
        "quantization": "F32",
        "license": "mit [31mred",
        "base_model": "Tiny",
        "has_chat_template": True,
        "aliases": ["tiny"],
        "state": "ready",
        "same_content_as": [],
    }
    assert model.trained_context_length == 256
    other = importing.register(file, "other")
    assert listing.describe(other)["same_content_as"] == ["someone/tiny"]


def test_all_parts_of_a_split_model_are_found_by_any_of_them(models: Path, tmp_path: Path) -> None:
    parts = tiny_models.write_gguf(tmp_path / "my model.gguf", split_max_tensors=6)
    assert len(parts) == 2
    model = importing.register(parts[1], "split/model")
    names = ["model-00001-of-00002.gguf", "model-00002-of-00002.gguf"]
    assert model.file == f"split--model/{names[0]}"
    assert [path.read_bytes() for path in model.paths] == [part.read_bytes() for part in parts]
    assert model.size_bytes == sum(part.stat().st_size for part in parts)
    assert model.parameter_count == 26848
    listed = "".join(
        f"{hashlib.sha256(part.read_bytes()).hexdigest()}  {name}\n" for part, name in zip(parts, names, strict=True)
    )
    assert model.digest == f"sha256:{hashlib.sha256(listed.encode()).hexdigest()}"
    # The name that it had elsewhere has no say in what it is.
    for part in parts:
        part.rename(part.with_name(part.name.replace("my model", "other")))
    assert importing.register(tmp_path / "other-00001-of-00002.gguf", "split/model") == model
    assert [path.name for path in models.iterdir()] == ["split--model"]


def test_a_split_model_without_one_of_its_parts_is_refused(models: Path, tmp_path: Path) -> None:
    first, second = tiny_models.write_gguf(tmp_path / "a.gguf", split_max_tensors=6)
    away = second.rename(tmp_path / "away")
    with pytest.raises(CannotRegister, match=r"a-00002-of-00002\.gguf is not beside it"):
        importing.register(first, "split")
    shutil.copy(first, second)
    with pytest.raises(CannotRegister, match="says that it is part 1 of 2, and its name that it is part 2"):
        importing.register(first, "split")
    away.rename(tmp_path / "b.gguf")
    with pytest.raises(CannotRegister, match="is not a model that can be loaded"):
        importing.register(tmp_path / "b.gguf", "split")
    assert list(models.iterdir()) == []


def test_a_folder_of_safetensors_is_a_model(models: Path, tmp_path: Path) -> None:
    folder = tiny_models.write_folder(tmp_path / "f", quantization_config={"quant_method": "exl2", "bits": 4.5})
    (folder / "pytorch_model.bin").write_bytes(b"cannot be read without running it")
    (folder / "modeling.py").write_text("raise SystemExit")
    model = importing.register(folder, "exl")
    assert (model.engine, model.format, model.quantization) == ("exllamav2", "exl2", "EXL2 4.5")
    assert (model.license, model.base_model, model.trained_context_length) == ("mit", "someone/tiny", 512)
    copied = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    assert {path.name for path in model.path.iterdir()} == {entry["name"] for entry in model.files} == copied
    (model.path / "config.json").write_text("{}")
    assert importing.register(folder, "exl") == model
    assert json.loads((model.path / "config.json").read_text())["max_position_embeddings"] == 512
    assert [path.name for path in models.iterdir()] == ["exl"]


@pytest.mark.parametrize("kind", hostile_models.GGUF)
def test_a_file_that_is_no_model_is_refused_and_told_why(tmp_path: Path, kind: str) -> None:
    content, reason = hostile_models.GGUF[kind]
    file = tmp_path / "bad.gguf"
    file.write_bytes(content)
    with pytest.raises(CannotRegister, match=f"(?s)bad.gguf.*({reason})") as refusal:
        inspecting.inspect(file.name, [file])
    assert "ended by it" not in str(refusal.value)
    assert str(refusal.value).isprintable()


@pytest.mark.parametrize("kind", hostile_models.FOLDERS)
def test_a_folder_that_is_no_model_is_refused_and_told_why(tmp_path: Path, kind: str) -> None:
    spoil, reason = hostile_models.FOLDERS[kind]
    folder = tiny_models.write_folder(tmp_path / "bad")
    spoil(folder)
    with pytest.raises(CannotRegister, match=f"bad.*{reason}"):
        inspecting.inspect(folder.name, [folder])


def test_whoever_reads_a_doubtful_file_cannot_take_the_machines_memory() -> None:
    script = "from models_app import inspect_file; inspect_file.bound(); bytearray(3 << 30)"
    child = subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert child.returncode == 1
    assert "MemoryError" in child.stderr


def test_folders_of_other_things_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(CannotRegister, match="no config"):
        importing.register(tmp_path, "x")
    tiny_models.write_gguf(tmp_path / "a.gguf")
    with pytest.raises(CannotRegister, match="name one of them, such as a"):
        importing.register(tmp_path, "x")
    folder = tiny_models.write_folder(tmp_path / "f")
    with pytest.raises(CannotRegister, match="name the folder"):
        importing.register(folder / "model.safetensors", "x")
    (folder / "a\nb.json").write_text("{}")
    with pytest.raises(CannotRegister, match=r"'a\\nb.json'"):
        importing.register(folder, "x")


def test_a_model_that_does_not_fit_on_the_disk_is_not_begun(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file,) = tiny_models.write_gguf(tmp_path / "a.gguf")
    monkeypatch.setattr(settings, "LMSP", replace(settings.LMSP, min_free_bytes=1 << 60))
    with pytest.raises(CannotRegister, match=r"GB free; the model takes .* Free some space"):
        importing.register(file, "x")
    assert list(models.iterdir()) == []


def test_what_lies_there_and_is_nobodys_is_not_replaced(models: Path, tmp_path: Path) -> None:
    (file,) = tiny_models.write_gguf(tmp_path / "a.gguf")
    mine = models / "x.gguf"
    mine.write_bytes(b"put there by hand")
    with pytest.raises(CannotRegister, match="belongs to no model"):
        importing.register(file, "x")
    assert mine.read_bytes() == b"put there by hand"
    # What a registration has left that was killed before its row.
    shutil.copy(file, mine)
    assert importing.register(file, "x").path == mine


def test_what_a_killed_registration_has_left_is_removed(models: Path, tmp_path: Path) -> None:
    (file,) = tiny_models.write_gguf(tmp_path / "a.gguf")
    script = "import os; from models_app import staging\nwith staging.folder() as f: print(f, flush=True); input()"
    others = [
        subprocess.Popen(
            [sys.executable, "-c", f"import django; django.setup(); {script}"],
            cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ,
        )
        for _ in range(2)
    ]  # fmt: skip
    try:
        killed, living = (Path(other.stdout.readline().strip()) for other in others if other.stdout)
        others[0].kill()
        others[0].wait()
        importing.register(file, "x")
        assert not killed.exists()
        assert living.exists()
    finally:
        for other in others:
            other.kill()
            other.communicate()


def test_a_name_means_one_model(tmp_path: Path) -> None:
    (file,) = tiny_models.write_gguf(tmp_path / "a.gguf")
    first = importing.register(file, "first", aliases=["small"])
    assert naming.find("small") == first
    importing.register(file, "first", aliases=["small", "fast"])
    named = AuditEntry.objects.get(action="changed")
    assert named.detail == {"changes": {"aliases": {"from": ["small"], "to": ["fast", "small"]}}}
    for model_id, alias in (
        ("small", "free"),
        ("second", "small"),
        ("second", "first"),
        ("second", "second"),
        ("second", "a b"),
    ):
        with pytest.raises(CannotRegister, match="alias"):
            importing.register(file, model_id, aliases=[alias])
    # Nothing is half done.
    assert LanguageModel.objects.count() == 1
    assert naming.find("free") is None
    assert naming.find("fast") == first


def test_what_need_not_stay_is_moved(tmp_path: Path) -> None:
    (file,) = tiny_models.write_gguf(tmp_path / "a.gguf")
    sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
    assert importing.register(file, "x", moved={"a.gguf": sha256}).digest == f"sha256:{sha256}"
    assert not file.exists()


def test_what_is_written_to_while_it_is_copied_is_refused(models: Path, tmp_path: Path) -> None:
    (file,) = tiny_models.write_gguf(tmp_path / "a.gguf")

    def write(_total: int) -> digests.OnBytes:
        return lambda _count: os.truncate(file, 1000)

    with pytest.raises(CannotRegister, match="was written to while it was copied"):
        importing.register(file, "x", on_start=write)
    assert list(models.iterdir()) == []
