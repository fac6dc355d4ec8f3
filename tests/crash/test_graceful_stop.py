"""SIGTERM with unfinished tasks of each policy: what can end in the grace does, and the rest is left as it is."""

import time
from pathlib import Path

from tests.crash.catalogue import REQUESTS
from tests.service import Service, eventually

_STORY = str(REQUESTS["greedy long"]["input"])


def _mid_text(service: Service, *task_ids: str) -> None:
    eventually(lambda: all(service.task(task_id)["usage"]["output_tokens"] > 1 for task_id in task_ids), 60)


def test_tasks_to_be_resumed_stop_at_once_and_stay_running(own_service: Service) -> None:
    twin = own_service.finished(own_service.create(_STORY, max_output_tokens=160)["id"])
    task = own_service.create(_STORY, on_restart="resume", max_output_tokens=160)["id"]
    _mid_text(own_service, task)
    began = time.monotonic()
    own_service.stop()
    assert time.monotonic() - began < 8, "the grace of 10 s is for those who need it"
    assert own_service.processes() == []
    assert own_service.sql("SELECT status, attempt FROM tasks WHERE id = ?", task) == [("running", 1)]
    own_service.start()
    done = own_service.finished(task)
    assert (done["status"], done["output_text"], done["usage"]) == ("completed", twin["output_text"], twin["usage"])
    (resumed,) = [event for event in own_service.events(task) if event.get("resumed")]
    assert resumed["exact"]
    own_service.check_log()


def test_the_others_have_the_grace_and_are_left_to_the_next_start_after_it(tmp_path: Path) -> None:
    with Service(tmp_path / "data", LMSP_SHUTDOWN_GRACE="8") as service:
        long = {policy: service.create(_STORY, on_restart=policy)["id"] for policy in ("fail", "retry")}
        _mid_text(service, *long.values())
        short = service.create(_STORY, on_restart="fail", max_output_tokens=20)["id"]
        _mid_text(service, short)
        began = time.monotonic()
        service.stop()
        assert 7 < time.monotonic() - began < 14
        assert service.processes() == []
        status = "SELECT status, error_code, attempt FROM tasks WHERE id = ?"
        assert service.sql(status, short) == [("completed", "", 1)]
        # Not even by the end of their engine: the next start says that it was a restart.
        for task in long.values():
            assert service.sql(status, task) == [("running", "", 1)]
        service.start()
        assert service.finished(long["fail"])["error"]["code"] == "server_restarted"
        eventually(lambda: service.task(long["retry"])["attempt"] == 2, 60)
        assert service.request("POST", f"/v1/tasks/{long['retry']}/cancel").json()["status"] == "cancelled"
        service.check_log()
