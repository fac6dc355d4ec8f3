"""`manage.py tasks`: what a person sees of tasks, and what they can do to them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.api.console import on_terminal, piped
from tests.api.test_commands import answer, refusal, run
from tests.service import MODEL, Service, eventually

Create = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def create(service: Service) -> Create:
    """Create tasks as a client whose tasks nobody else makes."""
    token = service.pair("console")

    def create(text: str = "Say hello.", **fields: Any) -> dict[str, Any]:
        body = {"model": MODEL, "input": text, "temperature": 0, "max_output_tokens": 8, **fields}
        with service.http(token=token) as http:
            done = http.post("/v1/tasks", json=body)
            assert done.status_code == 202, done.text
            task: dict[str, Any] = done.json()
            if fields.get("max_output_tokens", 8) < 100:
                eventually(lambda: http.get(f"/v1/tasks/{task['id']}").json()["finished_at"], 60)
            return task

    return create


@pytest.fixture(scope="module")
def three(create: Create) -> list[str]:
    """Three finished tasks, oldest first."""
    return [create(on_restart=policy)["id"] for policy in ("fail", "retry", "resume")]


def _list(service: Service, *options: str) -> list[str]:
    found = answer(run(service.data_dir, "tasks", "list", "--client", "console", *options, "--json"))
    return [task["id"] for task in found["data"]]


def test_the_list_of_an_empty_data_directory_is_empty(tmp_path: Path) -> None:
    listed = answer(run(tmp_path, "tasks", "list", "--json"))
    assert listed == {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}


def test_json_may_be_asked_for_before_the_subcommand_too(tmp_path: Path) -> None:
    assert answer(run(tmp_path, "tasks", "--json", "list"))["data"] == []


def test_the_newest_come_first_and_cursors_go_both_ways(service: Service, three: list[str]) -> None:
    newest = _list(service)
    assert [task for task in newest if task in three] == three[::-1]
    place = newest.index(three[1])
    assert _list(service, "--after", three[1][-12:], "--limit", "1") == [newest[place + 1]]
    assert _list(service, "--before", three[1], "--limit", "1") == [newest[place - 1]]


def test_filters_narrow_the_list(service: Service, three: list[str]) -> None:
    assert three[1] in _list(service, "--policy", "retry", "--status", "completed", "--model", MODEL)
    assert three[0] not in _list(service, "--policy", "retry")
    assert _list(service, "--status", "failed") == []
    assert _list(service, "--model", "other") == []


def test_an_unknown_client_is_refused_with_those_there_are(service: Service, three: list[str]) -> None:
    assert "console" in refusal(run(service.data_dir, "tasks", "list", "--client", "nobody", "--json"))


@pytest.mark.parametrize("columns", [80, 140])
def test_the_table_fits_the_terminal(service: Service, three: list[str], columns: int) -> None:
    shown = piped(service.data_dir, "tasks", "list", "--client", "console", COLUMNS=str(columns)).stdout.splitlines()
    assert max(map(len, shown)) <= columns
    assert "STATUS" in shown[0]
    assert sum(task[-8:] in line for task in three for line in shown) == len(three)


def test_a_pipe_gets_whole_ids_and_no_colour(service: Service, three: list[str]) -> None:
    shown = piped(service.data_dir, "tasks", "list", "--client", "console").stdout
    assert all(task in shown for task in three)
    assert "\x1b" not in shown


def test_states_are_coloured_on_a_terminal_unless_nobody_wants_that(service: Service, three: list[str]) -> None:
    listing = ("tasks", "list", "--client", "console")
    assert "\x1b[32;1mcompleted\x1b[0m" in on_terminal(service.data_dir, *listing)[1]
    assert "\x1b" not in on_terminal(service.data_dir, *listing, NO_COLOR="1")[1]
    assert "\x1b" not in on_terminal(service.data_dir, *listing, "--no-color")[1]


def test_a_task_is_shown_with_all_there_is(service: Service, create: Create) -> None:
    task = create("Count to three.", metadata={"who": "me"}, instructions="Be brief.", seed=5)
    shown = answer(run(service.data_dir, "tasks", "show", task["id"], "--json"))
    assert shown["output_text"] == service.text_on_disk(task["id"])
    assert (shown["client"]["name"], shown["metadata"], shown["request"]["seed"]) == ("console", {"who": "me"}, 5)
    assert [entry["type"] for entry in shown["timeline"]][:2] == ["response.created", "response.queued"]
    assert shown["timeline"][-1]["type"] in ("response.completed", "response.incomplete")
    assert sum(entry["text"]["events"] for entry in shown["timeline"] if entry["text"]) > 0
    assert shown["snapshot"]["journal_bytes"] == 6 * shown["usage"]["output_tokens"]
    text = piped(service.data_dir, "tasks", "show", task["id"]).stdout
    for expected in (task["id"], "Count to three.", "Be brief.", "who=me", "on_restart resume", shown["output_text"]):
        assert expected in text


def test_a_failed_task_is_shown_with_what_its_error_means(service: Service, create: Create) -> None:
    task = create()["id"]
    service.sql("UPDATE tasks SET error_code = 'engine_died', error_message = 'gone' WHERE id = ?", task)
    shown = piped(service.data_dir, "tasks", "show", task).stdout
    service.sql("UPDATE tasks SET error_code = '', error_message = '' WHERE id = ?", task)
    assert "engine_died: gone" in shown
    assert "LMSP_CONTEXT_LENGTH" in shown


def test_an_id_can_be_shortened_to_what_is_unique(service: Service, three: list[str]) -> None:
    task = three[0]
    for short in (task[-8:], f"…{task[-8:]}", task[:-3], task.removeprefix("task_")[:-3], task.replace("task", "resp")):
        assert answer(run(service.data_dir, "tasks", "show", short, "--json"))["id"] == task


def test_what_may_be_meant_is_named(service: Service, three: list[str]) -> None:
    message = refusal(run(service.data_dir, "tasks", "show", three[0][:10], "--json"))
    assert "may be any of: task_" in message
    assert "completed" in message
    assert "There is no task" in refusal(run(service.data_dir, "tasks", "show", "zzzzzzzz", "--json"))
    assert "4 characters" in refusal(run(service.data_dir, "tasks", "show", "1", "--json"))


def test_nothing_that_a_client_sends_commands_the_terminal(service: Service, create: Create) -> None:
    task = create("Hi \x1b[2J there", metadata={"bell": "\x07\x1b]0;title\x07"})["id"]
    drawn = on_terminal(service.data_dir, "tasks", "show", task, NO_COLOR="1")[1]
    assert "title" in drawn
    assert not {"\x1b", "\x07"} & set(drawn)


def test_cancel_tells_the_true_state_of_each_task(service: Service, create: Create, three: list[str]) -> None:
    running = create("Write a long story.", max_output_tokens=1000)["id"]
    eventually(lambda: service.text_on_disk(running), 60)
    done = run(service.data_dir, "tasks", "cancel", running, three[0], "zzzzzzzz", "--json")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert [(task["id"], task["status"]) for task in found["tasks"]] == [
        (running, "cancelled"),
        (three[0], "completed"),
    ]
    assert list(found["unknown"]) == ["zzzzzzzz"]
    again = piped(service.data_dir, "tasks", "cancel", running)
    assert (again.returncode, again.stdout.split()[1:]) == (0, ["cancelled", "was", "so", "before"])
    service.check_log()


def test_rerun_makes_the_same_request_once_more(service: Service, create: Create) -> None:
    old = create("Count to ten.", on_restart="retry", priority="batch", metadata={"a": "b"}, stop=["8"], seed=9)["id"]
    made = answer(run(service.data_dir, "tasks", "rerun", old, "--tail", "--json"))
    assert made["status"] == "completed"
    assert made["rerun_of"] == old
    assert made["output_text"] == service.text_on_disk(old)
    same = (
        "SELECT client_id, model, on_restart, priority, metadata, input_tokens, r.request FROM tasks t"
        " JOIN responses r ON r.task_id = t.id WHERE t.id = ?"
    )
    assert service.sql(same, made["id"]) == service.sql(same, old)
    service.check_log()


def test_rerun_prints_the_new_id_alone(service: Service, three: list[str]) -> None:
    made = piped(service.data_dir, "tasks", "rerun", three[0]).stdout.strip()
    eventually(lambda: service.sql("SELECT finished_at FROM tasks WHERE id = ?", made)[0][0], 60)
