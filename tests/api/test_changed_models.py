"""Files that change under registered models, in the running service."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests import tiny_models
from tests.api.bodies import STORY, body
from tests.service import Service, eventually

TINY = "changed/tiny"
LONG = "changed/long"


@pytest.fixture(scope="module")
def tiny(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a small model of its own."""
    (file,) = tiny_models.write_gguf(tmp_path_factory.mktemp("changed") / "tiny.gguf", seed=7, license="mit")
    service.manage("add_model", str(file), "--id", TINY, "--alias", "small")
    return service.data_dir / "models" / "changed--tiny.gguf"


def _done(service: Service) -> dict[str, Any]:
    return service.finished(service.create("Hi", model=TINY, max_output_tokens=2)["id"])


def _state(service: Service, model: str = TINY) -> str:
    state: str = service.request("GET", f"/v1/models/{model}").json()["state"]
    return state


def test_a_model_shows_what_its_file_says(service: Service, tiny: Path) -> None:
    model = service.request("GET", f"/v1/models/{TINY}").json()
    assert model == model | {
        "architecture": "llama",
        "parameter_count": 26848,
        "quantization": "F32",
        "license": "mit",
        "base_model": None,
        "has_chat_template": True,
        "trained_context_length": 256,
        "aliases": ["small"],
        "sampling": {},
    }
    (file,) = model["files"]
    assert (file["digest"], file["size_bytes"]) == (model["digest"], tiny.stat().st_size)


def test_a_request_may_name_an_alias_and_is_told_the_id(service: Service, tiny: Path) -> None:
    task = service.create("Hi", model="small", max_output_tokens=2)
    assert task["model"] == TINY
    answer = service.request("POST", "/v1/responses", json=body("Hi", model="small", max_output_tokens=2)).json()
    assert (answer["status"], answer["model"]) == ("incomplete", TINY)
    assert service.request("GET", "/v1/models/small").json()["id"] == TINY


def test_a_models_sampling_is_what_a_silent_request_means(service: Service, tiny: Path) -> None:
    sampling = '{"temperature": 0.25, "top_p": 0.5, "frequency_penalty": 1.5}'
    service.sql("UPDATE models SET sampling = ? WHERE id = ?", sampling, TINY)
    request = {"model": TINY, "input": "Hi", "max_output_tokens": 2, "top_p": 1, "frequency_penalty": None}
    said = service.request("POST", "/v1/responses", json=request).json()
    assert (said["temperature"], said["top_p"], said["frequency_penalty"]) == (0.25, 1, 1.5)
    assert said["presence_penalty"] == 0
    assert service.request("GET", f"/v1/models/{TINY}").json()["sampling"]["temperature"] == 0.25
    service.sql("UPDATE models SET sampling = '{}' WHERE id = ?", TINY)


def test_a_file_that_was_only_touched_is_as_good_as_before(service: Service, tiny: Path) -> None:
    os.utime(tiny)
    assert _done(service)["status"] == "completed"
    assert service.manage("verify_models", TINY)["models"][0]["state"] == "ready"
    deeds = "SELECT actor_kind, detail ->> 'done' FROM audit_log WHERE subject_id = ? AND action = 'changed'"
    assert service.sql(deeds, TINY) == [("command", "verified")]


def test_another_file_in_its_place_fails_tasks_until_it_is_back(service: Service, tiny: Path, tmp_path: Path) -> None:
    assert _done(service)["status"] == "completed"
    (other,) = tiny_models.write_gguf(tmp_path / "other.gguf", seed=8, license="mit")
    assert other.stat().st_size == tiny.stat().st_size
    digest = service.request("GET", f"/v1/models/{TINY}").json()["digest"]
    good = tiny.rename(tmp_path / "good")
    other.rename(tiny)
    failed = _done(service)
    assert (failed["status"], failed["error"]["code"]) == ("failed", "model_digest_mismatch")
    assert failed["output_text"] == ""
    assert "response.output_text.delta" not in {event["type"] for event in service.events(failed["id"])}
    model = service.request("GET", f"/v1/models/{TINY}").json()
    assert (model["state"], model["digest"]) == ("corrupt", digest)
    found = service.manage("verify_models", TINY, check=False)["models"]
    assert [entry["state"] for entry in found] == ["corrupt"]
    tiny.unlink()
    # The web server has the vocabulary by now, and does not ask for the file.
    failed = _done(service)
    assert (failed["status"], failed["error"]["code"]) == ("failed", "model_file_missing")
    assert _state(service) == "missing"
    good.rename(tiny)
    assert _done(service)["status"] == "completed"
    assert _state(service) == "ready"


def test_what_runs_on_a_file_that_is_written_to_ends_and_is_not_gone_on_with(
    service: Service, tmp_path: Path, model_path: Path
) -> None:
    source = tmp_path / "long.gguf"
    source.write_bytes(model_path.read_bytes() + b"changed models")
    service.manage("add_model", str(source), "--id", LONG)
    source.unlink()
    running = service.create(STORY, model=LONG, on_restart="resume", max_output_tokens=4000)["id"]
    eventually(lambda: service.task(running)["output_text"], 60, "it writes")
    file = service.data_dir / "models" / "changed--long.gguf"
    with file.open("r+b") as written:
        written.seek(-1, os.SEEK_END)
        written.write(b"S")
    found = service.finished(service.create("Hi", model=LONG)["id"])
    assert (found["status"], found["error"]["code"]) == ("failed", "model_digest_mismatch")
    ended = service.finished(running, 60)
    assert (ended["status"], ended["error"]["code"]) == ("failed", "model_digest_mismatch")
    assert ended["attempt"] > 1
    assert _state(service, LONG) == "corrupt"
    service.check_log()
    removed = service.manage("remove_model", LONG)
    assert (removed["id"], file.exists()) == (LONG, False)
    assert LONG not in {model["id"] for model in service.manage("list_models")["models"]}
