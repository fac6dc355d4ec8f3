"""The catalogue: which files and ids it takes, and that no model's file is ever replaced by another's."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connections

from lmsp_site import data_dir
from lmsp_site.audit_log import AuditEntry
from models_app import catalog
from models_app.models import LanguageModel
from tests.service import eventually


@pytest.fixture(autouse=True)
def models(database: Path) -> Iterator[Path]:
    """The directory of this process's model files, empty before and after."""
    directory = Path(settings.LMSP.models_dir)
    assert list(directory.iterdir()) == []
    yield directory
    for file in directory.iterdir():
        file.unlink()


@pytest.fixture
def other(tmp_path: Path, model_path: Path) -> Path:
    """Another file than the demo model, and as good a model."""
    file = tmp_path / "other.gguf"
    file.write_bytes(model_path.read_bytes() + b"\0")
    return file


def register(source: Path, model_id: str) -> LanguageModel | None:
    """Register from another thread, with its own connection; None if it is refused."""
    try:
        return catalog.register(source, model_id)
    except catalog.CannotRegister:
        return None
    finally:
        connections.close_all()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"GG",
        b"GGUF",
        b"GGUF" + b"\0" * 100,
        b"GGUF" + b"\xff" * 100,
        b"\x7fELF" + bytes(range(256)),
        b"no model\n",
    ],
)
def test_what_is_no_model_is_refused(models: Path, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "garbage.gguf"
    file.write_bytes(content)
    with pytest.raises(catalog.CannotRegister, match="garbage"):
        catalog.register(file, "garbage")
    assert list(models.iterdir()) == []


@pytest.mark.parametrize("part", [0.01, 0.5, 0.999])
def test_a_model_that_was_not_copied_whole_is_refused(
    models: Path, tmp_path: Path, model_path: Path, part: float
) -> None:
    file = tmp_path / "part.gguf"
    file.write_bytes(model_path.read_bytes()[: int(model_path.stat().st_size * part)])
    with pytest.raises(catalog.CannotRegister, match="part"):
        catalog.register(file, "part")
    assert list(models.iterdir()) == []


@pytest.mark.parametrize("model_id", ["", "../x", "a b", "/x", "-x", "x" * 201, "ü", "a/../b", "a\n", "a\0"])
def test_an_id_that_is_none_is_refused(model_path: Path, model_id: str) -> None:
    with pytest.raises(catalog.CannotRegister, match="id"):
        catalog.register(model_path, model_id)


def test_a_directory_and_a_device_are_no_files(tmp_path: Path) -> None:
    for source in (tmp_path, Path("/dev/zero"), tmp_path / "nowhere"):
        with pytest.raises(catalog.CannotRegister, match="not a file"):
            catalog.register(source, "x")


def test_the_same_file_is_registered_once(models: Path, model_path: Path) -> None:
    first = catalog.register(model_path, "twice")
    assert catalog.register(model_path, "twice") == first
    assert [file.name for file in models.iterdir()] == [first.file]


@pytest.mark.parametrize("second", ["name/taken", "name--taken"])
def test_no_models_file_is_replaced_by_another(models: Path, model_path: Path, other: Path, second: str) -> None:
    first = catalog.register(model_path, "name/taken")
    with pytest.raises(catalog.CannotRegister, match=r"taken|file name"):
        catalog.register(other, second)
    (file,) = models.iterdir()
    assert file == first.path
    assert file.stat().st_size == model_path.stat().st_size
    assert LanguageModel.objects.count() == 1


def test_a_file_that_was_lost_is_put_back(models: Path, model_path: Path) -> None:
    first = catalog.register(model_path, "lost")
    first.path.unlink()
    assert catalog.register(model_path, "lost") == first
    assert first.path.stat().st_size == first.size_bytes
    assert catalog.register(model_path, "lost") == first
    deeds = AuditEntry.objects.order_by("id").values_list("action", "detail__done")
    assert list(deeds) == [("created", None), ("changed", "files put back")], "the third has changed nothing"


def test_whoever_comes_second_sees_what_the_first_has_registered(models: Path, model_path: Path, other: Path) -> None:
    first = catalog.register(model_path, "first")
    with ThreadPoolExecutor(1) as threads:
        with data_dir.exclusive(settings.LMSP.run_dir / "models.lock"):
            second = threads.submit(register, other, "contested")
            size = other.stat().st_size
            eventually(lambda: any(file.stat().st_size == size for file in models.glob(".incoming-*/*")))
            wait([second], timeout=1)
            assert not second.done(), "it waits for whoever is registering"
            file = first.path.rename(models / "contested.gguf")
            LanguageModel.objects.filter(pk="first").update(id="contested", file=file.name)
        assert second.result() is None
    assert [file.name for file in models.iterdir()] == ["contested.gguf"]
    assert file.stat().st_size == model_path.stat().st_size


def test_of_two_files_at_once_under_one_id_one_is_registered(models: Path, model_path: Path, other: Path) -> None:
    with ThreadPoolExecutor(2) as threads:
        outcomes = list(threads.map(register, (model_path, other), ("contested", "contested")))
    (winner,) = [outcome for outcome in outcomes if outcome]
    (file,) = models.iterdir()
    assert file.stat().st_size == winner.size_bytes == LanguageModel.objects.get().size_bytes
