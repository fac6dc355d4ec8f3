"""`manage.py status`: one screen, whether or not the service runs."""

from pathlib import Path

from tests.api.console import on_terminal, piped
from tests.api.test_commands import answer, refusal, run
from tests.service import MODEL, Service, eventually


def test_nothing_serves_an_empty_data_directory(tmp_path: Path) -> None:
    status = answer(run(tmp_path, "status", "--json"))
    assert status["served_by"] is None
    assert status["workers"] == 0
    assert status["ready"]["database"] is None
    assert "engine host" in status["ready"]["runner"]
    assert not any(status["tasks"].values())
    assert all(found["pids"] == [] for found in status["processes"].values())


def test_a_service_at_work_is_seen_as_it_is(own_service: Service) -> None:
    tasks = [own_service.create("Write a long story.", max_output_tokens=2000)["id"] for _ in range(6)]
    eventually(lambda: all(own_service.text_on_disk(task) for task in tasks[:4]), 60)
    status = answer(run(own_service.data_dir, "status", "--json"))
    assert own_service.process is not None
    assert status["served_by"]["pid"] == own_service.process.pid
    assert status["ready"] == {"database": None, "runner": None, "disk": None}
    assert status["workers"] == 4
    assert {role for role, found in status["processes"].items() if found["pids"]} == {
        "supervisor",
        "engine_host",
        "web",
        "workers",
        "engines",
    }
    assert (status["tasks"]["running"], status["tasks"]["queued"]) == (4, 2)
    assert status["queue"]["normal"]["tasks"] == 2
    assert status["queue"]["normal"]["oldest_seconds"] > 0
    assert [task["id"] for task in status["running"]] == tasks[:4]
    assert all(task["output_tokens"] > 0 and task["tokens_per_second"] > 0 for task in status["running"])
    (model,) = status["models"]
    assert (model["id"], model["state"], model["busy_slots"]) == (MODEL, "ready", 4)
    assert model["memory_bytes"] > model["size_bytes"]
    assert status["storage"]["models_bytes"] == model["size_bytes"]

    shown = piped(own_service.data_dir, "status", COLUMNS="80").stdout.splitlines()
    assert len(shown) <= 24
    # But for the data directory, whose path is no use to anybody when it is cut.
    assert max(len(line) for line in shown if not line.startswith("data ")) <= 80

    piped(own_service.data_dir, "tasks", "cancel", *tasks)
    own_service.stop()
    stopped = answer(run(own_service.data_dir, "status", "--json"))
    assert stopped["served_by"] is None
    assert stopped["last_hour"]["cancelled"] == 6


def test_watching_draws_it_anew_until_control_c(service: Service) -> None:
    home = "\x1b[H"
    status, drawn = on_terminal(service.data_dir, "status", "--watch", "0.2", until=lambda text: text.count(home) >= 3)
    assert status == 0
    assert "Traceback" not in drawn
    assert "served by" in drawn
    assert drawn.rstrip().endswith("\x1b[?25h")


def test_watching_needs_a_terminal(service: Service) -> None:
    assert "terminal" in refusal(run(service.data_dir, "status", "--watch", "1"))
