"""``pull_model`` against a server that answers as the hub does."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import tiny_models
from tests.local_hub import COMMIT, LocalHub
from tests.service import REPOSITORY, eventually

TINY = "someone/tiny-GGUF"


@pytest.fixture(scope="module")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One of a single model, one of several with a split one, one of safetensors."""
    folder = tmp_path_factory.mktemp("hub")
    for name in ("tiny", "several"):
        (folder / name).mkdir()
        (folder / name / "README.md").write_text("# A model\n")
    tiny_models.write_gguf(folder / "tiny" / "tiny.gguf")
    # The library hands on what has come by 10 MiB.
    os.truncate(folder / "tiny" / "tiny.gguf", 12 << 20)
    tiny_models.write_gguf(folder / "several" / "a.gguf", seed=1)
    (folder / "several" / "Q8").mkdir()
    tiny_models.write_gguf(folder / "several" / "Q8" / "b.gguf", seed=2, split_max_tensors=6)
    tiny_models.write_folder(folder / "folder")
    names = {"tiny": TINY, "several": "someone/several", "folder": "someone/folder"}
    return {repository: folder / name for name, repository in names.items()}


@pytest.fixture
def hub(repositories: dict[str, Path]) -> Iterator[LocalHub]:
    with LocalHub(repositories) as running:
        yield running


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pulling")


@pytest.fixture
def environment(hub: LocalHub, data_dir: Path, tmp_path: Path) -> dict[str, str]:
    home = {"HOME": str(tmp_path), "HF_HOME": str(tmp_path / "hf")}
    return {**os.environ, **home, "LMSP_DATA_DIR": str(data_dir), "HF_ENDPOINT": hub.url, "HF_TOKEN": "hf_secret"}


def command(source: str, model_id: str, *more: str) -> list[str]:
    return [sys.executable, "manage.py", "pull_model", source, "--id", model_id, *more]


def pull(environment: dict[str, str], source: str, model_id: str, *more: str) -> dict[str, Any]:
    """Pull, and return the answer, or why there is none under ``error``."""
    done = subprocess.run(
        [*command(source, model_id, *more), "--json"],
        cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    answer: dict[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {"error": done.stderr}
    assert "Traceback" not in done.stderr
    return answer


def parts_of(data_dir: Path) -> list[Path]:
    """Return what has come and is not yet whole."""
    return list((data_dir / "models").glob(".pull-*/*.part"))


def test_a_killed_download_goes_on_where_it_was(
    hub: LocalHub, environment: dict[str, str], data_dir: Path, repositories: dict[str, Path]
) -> None:
    hub.cut_after = 11 << 20
    with subprocess.Popen([*command(TINY, "tiny"), "--json"], cwd=REPOSITORY, env=environment) as process:
        eventually(hub.hangs.is_set, 30)
        come = 10 << 20
        eventually(lambda: [part.stat().st_size for part in parts_of(data_dir)] == [come])
        process.kill()
    model = pull(environment, TINY, "tiny", "--alias", "small")
    assert model == model | {
        "id": "tiny",
        "aliases": ["small"],
        "source": TINY,
        "commit": COMMIT,
        "license": "apache-2.0",
        "state": "ready",
    }
    assert hub.transfers() == [None, f"bytes={come}-"]
    file = data_dir / "models" / "tiny.gguf"
    assert file.read_bytes() == (repositories[TINY] / "tiny.gguf").read_bytes()
    assert list((data_dir / "models").glob(".*")) == []
    # The token is for the hub, and not for where it keeps its files.
    told = {path.startswith("/cdn/"): headers.get("authorization") for _, path, headers in hub.requests}
    assert told == {False: "Bearer hf_secret", True: None}
    # What it would be refused for is told before.
    assert "is taken" in pull(environment, "someone/several:a.gguf", "tiny")["error"]
    assert len(hub.transfers()) == 2


def test_what_is_not_what_the_hub_states_is_refused_and_removed(
    hub: LocalHub, environment: dict[str, str], data_dir: Path
) -> None:
    hub.lies = {"a.gguf"}
    refused = pull(environment, "someone/several:a.gguf", "lie")["error"]
    assert "a.gguf is not what the hub states" in refused
    assert parts_of(data_dir) == []
    hub.lies = set()
    assert pull(environment, "someone/several:a.gguf", "lie")["state"] == "ready"


def test_split_models_and_folders_come_whole(hub: LocalHub, environment: dict[str, str], data_dir: Path) -> None:
    assert pull(environment, "someone/several:Q8/b-00002-of-00002.gguf", "split")["files"] == 2
    assert pull(environment, "someone/folder", "exl")["engine"] == "exllamav2"
    parts = [path.name for path in sorted((data_dir / "models" / "split").iterdir())]
    assert parts == ["model-00001-of-00002.gguf", "model-00002-of-00002.gguf"]


def test_a_person_sees_licence_and_progress(hub: LocalHub, environment: dict[str, str]) -> None:
    seen, terminal = pty.openpty()
    with subprocess.Popen(
        command(TINY, "again"), cwd=REPOSITORY, env=environment, stderr=terminal, stdout=subprocess.DEVNULL
    ) as process:
        os.close(terminal)
        said = b""
        try:
            while block := os.read(seen, 4096):
                said += block
        except OSError:  # A terminal whose other end is closed.
            pass
        assert process.wait(30) == 0
    os.close(seen)
    assert b"licence: apache-2.0" in said
    assert b"Pulling [##############################] 100%" in said
