"""kill -9 and start again: nothing accepted is lost, nothing sent is doubled, a resumed run is the undisturbed one."""

import json
import sqlite3
import struct
from contextlib import closing
from typing import Any

import pytest

from tests.service import Service, eventually

_STORY = "Write a long story about a lighthouse keeper."
_TOKENS = 120


def _deltas(events: list[dict[str, Any]]) -> str:
    return "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")


def _kill_while_running(service: Service, *task_ids: str, tokens: int = 12) -> None:
    eventually(
        lambda: all(service.task(task_id)["usage"]["output_tokens"] >= tokens for task_id in task_ids),
        60,
        f"each of {task_ids} has {tokens} tokens",
    )
    service.kill()


@pytest.mark.parametrize(("policy", "status"), [("retry", "completed"), ("resume", "completed"), ("fail", "failed")])
def test_R1_a_task_killed_right_after_its_202_finishes_by_its_policy(
    own_service: Service, policy: str, status: str
) -> None:
    task = own_service.create(on_restart=policy, max_output_tokens=8)
    own_service.kill()
    own_service.start()
    done = own_service.finished(task["id"])
    assert done["status"] == status
    assert (done["error"] or {}).get("code") == ("server_restarted" if policy == "fail" else None)
    own_service.check_log()


@pytest.mark.parametrize(
    "sampling", [{"temperature": 0}, {"temperature": 0.8, "top_p": 0.95, "seed": 7}], ids=["greedy", "seeded"]
)
def test_a_resumed_run_equals_its_undisturbed_twin(own_service: Service, sampling: dict[str, float]) -> None:
    body = {"on_restart": "resume", "max_output_tokens": _TOKENS, "stop": ["THE END"], **sampling}
    twin = own_service.finished(own_service.create(_STORY, **body)["id"])
    task = own_service.create(_STORY, **body)
    _kill_while_running(own_service, task["id"])
    before = own_service.sql(
        "SELECT sequence_number, type FROM task_events WHERE task_id = ? ORDER BY sequence_number", task["id"]
    )
    own_service.start()
    done = own_service.finished(task["id"])
    assert done["status"] == "completed"
    assert done["output_text"] == twin["output_text"]
    assert done["usage"] == twin["usage"]
    assert done["attempt"] == 2
    events = own_service.events(task["id"])
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [(event["sequence_number"], event["type"]) for event in events[: len(before)]] == before
    resumed = {"type": "response.in_progress", "attempt": 2, "resumed": True, "exact": True}
    assert {name: events[len(before)].get(name) for name in resumed} == resumed, events[len(before) - 2 :]
    assert _deltas(events) == done["output_text"]
    own_service.check_log()


def test_a_resumed_run_keeps_the_sampling_that_its_model_had(own_service: Service) -> None:
    def set_defaults(**sampling: float) -> None:
        own_service.sql("UPDATE models SET sampling = ?", json.dumps(sampling))

    body = {"on_restart": "resume", "max_output_tokens": _TOKENS, "temperature": None, "seed": 3}
    set_defaults(temperature=0.9, top_k=20, min_p=0.02, repetition_penalty=1.1)
    twin = own_service.finished(own_service.create(_STORY, **body)["id"])
    task = own_service.create(_STORY, **body)
    eventually(lambda: own_service.task(task["id"])["usage"]["output_tokens"] >= 12, 60)
    set_defaults(temperature=0)
    own_service.kill_child("models_app.engines.process")
    done = own_service.finished(task["id"])
    assert (done["attempt"], done["output_text"]) == (2, twin["output_text"])
    other = own_service.finished(own_service.create(_STORY, **body)["id"])
    assert other["output_text"] != twin["output_text"], "a new one goes by the new defaults"
    own_service.check_log()


def test_the_journalled_tokens_are_forced(own_service: Service) -> None:
    """Alter one token of the journal: the continuation follows the altered one, so nothing is regenerated."""
    body = {"on_restart": "resume", "max_output_tokens": _TOKENS}
    twin = own_service.finished(own_service.create(_STORY, **body)["id"])
    task = own_service.create(_STORY, **body)
    _kill_while_running(own_service, task["id"])
    sent = own_service.text_on_disk(task["id"])
    with closing(sqlite3.connect(own_service.data_dir / "db.sqlite3")) as connection, connection:
        position, tokens = connection.execute(
            "SELECT position, tokens FROM task_journal WHERE snapshot_id = ? ORDER BY position DESC LIMIT 1",
            (task["id"],),
        ).fetchone()
        altered = struct.pack("<I", 260) + tokens[4:]
        connection.execute(
            "UPDATE task_journal SET tokens = ? WHERE snapshot_id = ? AND position = ?", (altered, task["id"], position)
        )
    own_service.start()
    done = own_service.finished(task["id"])
    text = done["output_text"]
    assert text.startswith(sent)
    assert text != twin["output_text"]
    own_service.check_log()


def test_a_retried_run_starts_anew(own_service: Service) -> None:
    task = own_service.create(_STORY, on_restart="retry", max_output_tokens=_TOKENS)
    _kill_while_running(own_service, task["id"])
    own_service.start()
    done = own_service.finished(task["id"])
    assert (done["status"], done["attempt"]) == ("completed", 2)
    events = own_service.events(task["id"])
    anew = max(n for n, event in enumerate(events) if event["type"] == "response.queued")
    assert events[anew]["attempt"] == 2
    assert _deltas(events[anew:]) == done["output_text"]
    own_service.check_log()


def test_four_at_once_are_resumed_to_their_twins(own_service: Service) -> None:
    prompts = [f"Tell me about the number {n}." for n in range(4)]
    body = {"on_restart": "resume", "max_output_tokens": 80}
    twins = [own_service.create(prompt, **body)["id"] for prompt in prompts]
    texts = [own_service.finished(twin)["output_text"] for twin in twins]
    tasks = [own_service.create(prompt, **body)["id"] for prompt in prompts]
    _kill_while_running(own_service, *tasks, tokens=4)
    own_service.start()
    assert [own_service.finished(task)["output_text"] for task in tasks] == texts
    own_service.check_log()


def test_a_clean_stop_leaves_a_resumable_task_to_the_next_start(own_service: Service) -> None:
    body = {"on_restart": "resume", "max_output_tokens": _TOKENS}
    twin = own_service.finished(own_service.create(_STORY, **body)["id"])
    task = own_service.create(_STORY, **body)
    eventually(lambda: own_service.task(task["id"])["usage"]["output_tokens"] >= 8, 60)
    own_service.stop()
    assert own_service.processes() == []
    own_service.start()
    assert own_service.finished(task["id"])["output_text"] == twin["output_text"]
    own_service.check_log()


def test_an_engine_that_dies_alone_costs_nothing(own_service: Service) -> None:
    """The service goes on; the task resumes on a new engine, and one who watched sees one seamless stream."""
    body = {"on_restart": "resume", "max_output_tokens": _TOKENS}
    twin = own_service.finished(own_service.create(_STORY, **body)["id"])
    task = own_service.create(_STORY, **body)
    eventually(lambda: own_service.task(task["id"])["usage"]["output_tokens"] >= 8, 60)
    own_service.kill_child("models_app.engines.process")
    done = own_service.finished(task["id"])
    assert (done["status"], done["output_text"]) == ("completed", twin["output_text"])
    own_service.check_log()
