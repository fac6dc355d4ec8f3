"""Which models the running service loads, keeps and lets go, and what it shows of that."""

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from models_app.engines import exllamav2_presence
from models_app.engines.client import HostClient
from tests import hostile_models
from tests.api.test_admin import submit
from tests.service import MODEL, Service, demo_model, eventually

OTHER = "other/model"
CRASHING = "crashing/model"


@pytest.fixture(scope="module")
def loading(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service of two models, of which it loads one when it starts."""
    running = Service(tmp_path_factory.mktemp("loading") / "data")
    other = tmp_path_factory.mktemp("other") / "model.gguf"
    other.write_bytes(demo_model().read_bytes() + b"\0")
    running.manage("add_model", str(demo_model()), "--id", MODEL)
    running.manage("add_model", str(other), "--id", OTHER)
    running.sql("UPDATE service_config SET preload = ?", f"{MODEL}\nnever/registered")
    running.token = running.manage("create_client", "tests")["token"]
    running.start()
    yield running
    running.stop()


@pytest.fixture
def rules(loading: Service) -> Iterator[Service]:
    """The service, whose rules are put back afterwards."""
    yield loading
    _set(loading, keep_alive=3600, max_loaded=0, engine_memory_mb=0)
    _cancel_all(loading)
    loading.settle()


def _cancel_all(service: Service) -> None:
    for (busy,) in service.sql("SELECT id FROM tasks WHERE status = 'running'"):
        service.request("POST", f"/v1/tasks/{busy}/cancel")


def _set(service: Service, **values: int) -> None:
    """Change the configuration as the admin does; who loads a model takes the rules along."""
    service.sql(f"UPDATE service_config SET {', '.join(f'{name} = ?' for name in values)}", *values.values())


def _model(service: Service, model_id: str) -> dict[str, Any]:
    found: dict[str, Any] = service.request("GET", f"/v1/models/{model_id}").json()
    return found


def _deeds(service: Service) -> list[tuple[str, str]]:
    """Return what the audit log has of the other model, oldest first: by which door, and what."""
    return service.sql(
        "SELECT actor_kind, detail ->> 'done' FROM audit_log WHERE subject_id = ? AND action = 'changed' ORDER BY id",
        OTHER,
    )


def _is_in(service: Service, model_id: str, state: str) -> None:
    eventually(lambda: _model(service, model_id)["state"] == state, 30, f"{model_id} is {state}")


def test_what_is_to_be_preloaded_is_ready_without_any_task(loading: Service) -> None:
    _is_in(loading, MODEL, "ready")
    assert _model(loading, OTHER)["state"] == "unloaded"
    assert loading.sql("SELECT count(*) FROM tasks") == [(0,)]
    eventually(lambda: "never/registered" in loading.log.read_text(), 5, "what cannot be preloaded is told")


def test_a_model_tells_its_size_in_memory_and_the_speed_that_its_tasks_saw(loading: Service) -> None:
    assert _model(loading, OTHER) | {"memory_bytes": None, "tokens_per_second": None} == _model(loading, OTHER)
    task = loading.finished(loading.create("Write a story.", max_output_tokens=40)["id"])
    assert task["status"] == "completed"
    model = eventually(lambda: (m := _model(loading, MODEL))["tokens_per_second"] and m, 5)
    assert 50 << 20 < model["memory_bytes"] < 2 << 30
    assert 1 < model["tokens_per_second"] < 10_000


def test_commands_load_and_unload(rules: Service) -> None:
    loaded = rules.manage("load_model", OTHER)
    assert (loaded["id"], loaded["state"]) == (OTHER, "ready")
    assert loaded["memory_bytes"] > 50 << 20
    assert rules.manage("unload_model", OTHER) == {"id": OTHER, "unloaded": True}
    assert _model(rules, OTHER)["state"] == "unloaded"
    assert rules.manage("unload_model", OTHER) == {"id": OTHER, "unloaded": False}
    assert _deeds(rules) == [("command", "loaded"), ("command", "unloaded")], "what changed nothing is no deed"


def test_a_task_whose_model_needs_too_much_memory_fails_with_both_figures(rules: Service) -> None:
    _set(rules, engine_memory_mb=64)
    task = rules.finished(rules.create("Hi", model=OTHER)["id"])
    assert (task["status"], task["error"]["code"]) == ("failed", "insufficient_memory")
    assert "64 MB" in task["error"]["message"]
    assert _model(rules, MODEL)["state"] == "ready", "it would not have helped"


def test_a_task_waits_while_all_models_are_in_use_and_shows_why(rules: Service) -> None:
    _is_in(rules, MODEL, "ready")
    _set(rules, max_loaded=1)
    busy = rules.create("Write a long story.", max_output_tokens=4000)["id"]
    eventually(lambda: rules.task(busy)["usage"]["output_tokens"] > 0)
    waiting = rules.create("Hi", model=OTHER, max_output_tokens=2)["id"]
    eventually(lambda: "in use" in str(rules.task(waiting)["progress"]), 30)
    shown = rules.task(waiting)
    assert (shown["status"], shown["progress"]["phase"]) == ("loading", "waiting")
    assert _model(rules, OTHER)["state"] == "waiting"
    rules.request("POST", f"/v1/tasks/{busy}/cancel")
    assert rules.finished(waiting)["status"] == "completed"
    assert (_model(rules, OTHER)["state"], _model(rules, MODEL)["state"]) == ("ready", "unloaded")


def test_a_model_that_nobody_uses_is_let_go_and_comes_back_when_it_is_wanted(rules: Service) -> None:
    _set(rules, keep_alive=0)
    for _ in range(2):
        # Each comes just when the one before it has let the engine go, or is about to.
        task = rules.finished(rules.create("Hi", on_restart="fail", max_output_tokens=2)["id"])
        assert (task["status"], task["attempt"]) == ("completed", 1)
    _is_in(rules, MODEL, "unloaded")


def test_a_model_is_kept_for_a_time_of_its_own(rules: Service) -> None:
    assert rules.finished(rules.create("Hi", max_output_tokens=2)["id"])["status"] == "completed"
    rules.sql("UPDATE models SET keep_alive = 0 WHERE id = ?", MODEL)
    _is_in(rules, MODEL, "unloaded")
    rules.sql("UPDATE models SET keep_alive = NULL")


def test_a_model_that_takes_its_engine_down_fails_its_own_tasks_and_is_left_alone(
    rules: Service, tmp_path: Path
) -> None:
    file = hostile_models.write_crashing(demo_model(), tmp_path / "crashing.gguf")
    rules.manage("add_model", str(file), "--id", CRASHING)
    busy = rules.create("Write a long story.", max_output_tokens=4000)["id"]
    eventually(lambda: rules.task(busy)["usage"]["output_tokens"] > 0)
    failed = [rules.finished(rules.create("Hi", model=CRASHING, on_restart="resume")["id"]) for _ in range(4)]
    found = {(task["status"], task["error"]["code"], task["attempt"]) for task in failed}
    assert found == {("failed", "engine_crashed", 1)}
    assert "3 times in a row" in failed[-1]["error"]["message"], "the fourth was not tried"
    assert str(rules.data_dir) not in str(failed)
    assert (rules.task(busy)["status"], rules.task(busy)["attempt"]) == ("running", 1)
    rules.manage("remove_model", CRASHING)


@pytest.fixture
def unavailable(rules: Service) -> Iterator[Service]:
    """The service, whose workers are all busy with one model; the other one is of an engine that is not there."""
    rules.manage("unload_model", OTHER)
    for _ in range(4):
        rules.create("Write a long story.", max_output_tokens=4000)
    eventually(lambda: rules.sql("SELECT count(*) FROM tasks WHERE status = 'running'") == [(4,)])
    yield rules
    rules.sql("UPDATE models SET engine = 'llamacpp'")


@pytest.mark.skipif(exllamav2_presence.why_unavailable() is None, reason="this machine can run every engine")
def test_a_task_of_an_engine_that_is_not_there_fails_and_says_why(unavailable: Service) -> None:
    accepted = unavailable.create("Hi", model=OTHER)["id"]
    unavailable.sql("UPDATE models SET engine = 'exllamav2' WHERE id = ?", OTHER)
    if importlib.util.find_spec("tokenizers") is None:
        refused = unavailable.request("POST", "/v1/tasks", json={"model": OTHER, "input": "Hi"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "engine_unavailable")
    _cancel_all(unavailable)
    task = unavailable.finished(accepted)
    assert (task["status"], task["error"]["code"]) == ("failed", "engine_unavailable")
    assert "exllamav2 is unavailable" in task["error"]["message"]
    assert unavailable.finished(unavailable.create("Hi", max_output_tokens=1)["id"])["status"] == "completed"


def test_the_admin_shows_states_and_loads_and_unloads(loading: Service) -> None:
    password = loading.manage("quickstart")["password"]
    with httpx.Client(base_url=loading.url, timeout=60, verify=False, follow_redirects=True) as browser:
        submit(browser, "/admin/login/?next=/admin/", username="admin", password=password)
        address = "/admin/models_app/languagemodel/"
        assert "exllamav2" in browser.get(address).text
        submit(browser, address, action="load", _selected_action=OTHER)
        _is_in(loading, OTHER, "ready")
        shown = '"state ready" data-cell="state">ready<.*"memory">[0-9]+ MB<'
        assert re.search(shown, browser.get(address).text, re.DOTALL)
        page = submit(browser, address, action="unload", _selected_action=OTHER)
        assert "was unloaded" in page.text
    assert _deeds(loading)[-2:] == [("admin", "loaded"), ("admin", "unloaded")]
    assert HostClient(loading.data_dir / "run").find(_model(loading, OTHER)["digest"]) is None
