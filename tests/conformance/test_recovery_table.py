"""Chapter 11.3 on a real service: all twelve cells, in one start."""

from tests.service import Service, eventually

TABLE = {
    "queued": {"fail": "failed", "retry": "queued", "resume": "queued"},
    "loading": {"fail": "failed", "retry": "queued", "resume": "queued"},
    "running": {"fail": "failed", "retry": "queued", "resume": "running"},
    "cancelling": {"fail": "cancelled", "retry": "cancelled", "resume": "cancelled"},
}
_FIRST_EVENT = {
    "failed": "response.failed",
    "cancelled": "response.cancelled",
    "running": "response.in_progress",
}


def test_R6_every_cell_of_the_recovery_table(own_service: Service) -> None:
    """What a start makes of each state and policy; whatever goes on afterwards finishes."""
    cells = {}
    for status, outcomes in TABLE.items():
        for policy in outcomes:
            task = own_service.create(on_restart=policy, max_output_tokens=4)
            own_service.finished(task["id"])
            cells[task["id"]] = (status, policy)
    own_service.stop()
    # As a kill in the middle of each state leaves them: the log, the snapshot and no owner.
    last = {
        "queued": "response.queued",
        "loading": "response.in_progress",
        "running": "response.in_progress",
        "cancelling": "response.in_progress",
    }
    for task_id, (status, _) in cells.items():
        (number,) = own_service.sql(
            "SELECT max(sequence_number) FROM task_events WHERE task_id = ? AND type = ?", task_id, last[status]
        )[0]
        own_service.sql("DELETE FROM task_events WHERE task_id = ? AND sequence_number > ?", task_id, number)
        own_service.sql("DELETE FROM task_journal WHERE snapshot_id = ?", task_id)
        own_service.sql(
            "UPDATE tasks SET status = ?, owner = NULL, finished_at = NULL, output_tokens = 0,"
            " last_sequence_number = ? WHERE id = ?",
            status,
            number,
            task_id,
        )
    kept = {
        task_id: own_service.sql("SELECT count(*) FROM task_events WHERE task_id = ?", task_id)[0][0]
        for task_id in cells
    }
    own_service.start()
    for task_id, (status, policy) in cells.items():
        expected = TABLE[status][policy]
        done = own_service.finished(task_id)
        new = own_service.events(task_id)[kept[task_id] :]
        if expected in ("failed", "cancelled"):
            assert [event["type"] for event in new] == [_FIRST_EVENT[expected]]
            assert done["status"] == expected
            if expected == "failed":
                assert done["error"]["code"] == new[0]["response"]["error"]["code"] == "server_restarted"
        else:
            assert done["status"] == "completed"
            assert new[0]["type"] == (
                "response.queued" if expected == "queued" and status != "queued" else "response.in_progress"
            )
            assert new[0].get("resumed", False) is (expected == "running")
    own_service.check_log()


def test_R6_recovery_happens_before_anything_is_served(own_service: Service) -> None:
    """A task that is left over has its new state by the time the service answers at all."""
    task = own_service.create("Write a long story.", on_restart="fail", max_output_tokens=500)
    eventually(lambda: own_service.task(task["id"])["status"] == "running", 60)
    own_service.kill()
    own_service.start()
    assert own_service.task(task["id"])["status"] == "failed"
