"""A backup is a service at one moment: restored elsewhere it goes on from there, as after a crash."""

import json
import shutil
from pathlib import Path
from typing import Any

from tests.api.test_commands import answer, run
from tests.service import Service, eventually

_STORY = "Write a long story about a lighthouse keeper."
_BODY = {"max_output_tokens": 100}


def _elsewhere(service: Service, data_dir: Path) -> Service:
    """Another service on `data_dir` that the first one's client may call."""
    other = Service(data_dir)
    other.token, other.client_id = service.token, service.client_id
    return other


def _start_one_of_each(service: Service) -> dict[str, str]:
    tasks = {policy: service.create(_STORY, on_restart=policy, **_BODY)["id"] for policy in ("fail", "retry", "resume")}
    eventually(lambda: all(len(service.text_on_disk(task)) > 40 for task in tasks.values()), 60, "all three run")
    return tasks


def _outcome(service: Service, tasks: dict[str, str]) -> dict[str, dict[str, Any]]:
    return {policy: service.finished(task) for policy, task in tasks.items()}


def test_a_backup_of_running_tasks_is_restored_elsewhere_and_finishes_by_their_policies(
    own_service: Service, tmp_path: Path
) -> None:
    twin = own_service.finished(own_service.create(_STORY, on_restart="resume", **_BODY)["id"])
    tasks = _start_one_of_each(own_service)
    queued = [own_service.create("Hi", on_restart="retry", max_output_tokens=4)["id"] for _ in range(3)]
    file = tmp_path / "backup.sqlite3"
    made = answer(run(own_service.data_dir, "backup", str(file), "--json"))
    assert (made["violations"], made["bytes"]) == ([], file.stat().st_size)
    # Those that it was taken of go on undisturbed.
    assert {done["output_text"] for done in _outcome(own_service, tasks).values()} == {twin["output_text"]}
    own_service.stop()

    other = _elsewhere(own_service, tmp_path / "other")
    restored = answer(run(other.data_dir, "restore", str(file), "--json"))
    running = {
        group["on_restart"]: group["becomes"] for group in restored["unfinished"] if group["status"] == "running"
    }
    assert {"fail": "failed", "resume": "running"}.items() <= running.items()
    assert restored["kept"] is None
    assert [model["id"] for model in restored["models_missing"]] == [twin["model"]]
    shutil.copytree(own_service.data_dir / "models", other.data_dir / "models", dirs_exist_ok=True)
    other.start()
    try:
        done = _outcome(other, tasks)
        assert {policy: task["status"] for policy, task in done.items()} == {
            "fail": "failed",
            "retry": "completed",
            "resume": "completed",
        }
        assert done["fail"]["error"]["code"] == "server_restarted"
        assert (done["resume"]["output_text"], done["resume"]["usage"]) == (twin["output_text"], twin["usage"])
        events = other.events(tasks["resume"])
        assert [event["exact"] for event in events if event.get("resumed")] == [True]
        assert all(other.finished(task)["status"] == "completed" for task in queued)
        # The bells of the old service were signed with another key: nothing hangs, nothing is complained of.
        assert b"BadSignature" not in other.log.read_bytes()
        other.check_log()
    finally:
        other.stop()


def test_a_restore_over_what_went_on_takes_the_service_back(own_service: Service, tmp_path: Path) -> None:
    """The present database is ahead of the backup, and the checkpoints are of generations it knows less of."""
    kept = own_service.finished(own_service.create("Say hello.", max_output_tokens=8)["id"])
    file = tmp_path / "backup.sqlite3"
    own_service.manage("backup", str(file))
    later = own_service.create("Say goodbye.", max_output_tokens=8)["id"]
    own_service.finished(later)
    assert "runs on this data directory already" in run(own_service.data_dir, "restore", str(file), "--force").stderr
    own_service.kill()
    left_over = own_service.data_dir / "checkpoints" / later
    left_over.write_bytes(b"of another life")
    assert "holds 2 tasks" in run(own_service.data_dir, "restore", str(file)).stderr
    restored = answer(run(own_service.data_dir, "restore", str(file), "--force", "--json"))
    assert not left_over.exists()
    own_service.start()
    assert own_service.task(kept["id"])["output_text"] == kept["output_text"]
    assert own_service.request("GET", f"/v1/tasks/{later}").status_code == 404
    assert own_service.finished(own_service.create("And on?", max_output_tokens=4)["id"])["status"] == "completed"
    own_service.check_log()
    own_service.stop()
    # And forth again: what was kept is a backup as well, with all that its log held.
    run(own_service.data_dir, "restore", restored["kept"], "--force")
    assert own_service.sql("SELECT status FROM tasks WHERE id = ?", later) == [("completed",)]


def test_a_moved_data_directory_goes_on_where_it_is(own_service: Service, tmp_path: Path) -> None:
    body = {"on_restart": "resume", **_BODY}
    twin = own_service.finished(own_service.create(_STORY, **body)["id"])
    task = own_service.create(_STORY, **body)["id"]
    eventually(lambda: len(own_service.text_on_disk(task)) > 40, 60)
    own_service.stop()
    moved = tmp_path / "on another disk" / "data"
    moved.parent.mkdir()
    shutil.move(own_service.data_dir, moved)
    other = _elsewhere(own_service, moved)
    other.start()
    try:
        done = other.finished(task)
        assert (done["status"], done["output_text"]) == ("completed", twin["output_text"])
        assert [event["exact"] for event in other.events(task) if event.get("resumed")] == [True]
        other.check_log()
    finally:
        other.stop()
    assert not own_service.data_dir.exists()


def test_backups_taken_again_and_again_under_load_are_all_whole(own_service: Service, tmp_path: Path) -> None:
    tasks = [own_service.create(_STORY, on_restart="resume", max_output_tokens=60, seed=n)["id"] for n in range(6)]
    taken = 0
    while own_service.sql("SELECT count(*) FROM tasks WHERE finished_at IS NULL") != [(0,)]:
        done = run(own_service.data_dir, "backup", str(tmp_path / "backup.sqlite3"), "--force", "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        assert json.loads(done.stdout)["tasks"] == len(tasks)
        taken += 1
    assert taken > 1
    own_service.check_log()
