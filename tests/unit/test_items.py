"""Items of a conversation: their ids, and the messages a chat template is given."""

import json

from lmsp_site.ids import first_id_at, moment_of, new_id, new_suffix
from tasks_app import items

CALL = {"type": "function_call", "status": "completed", "call_id": "c", "name": "f", "arguments": '{"a": 1}'}
OUTPUT = {"type": "function_call_output", "status": "completed", "call_id": "c", "output": "x"}
CALLED = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
ANSWERED = "<tool_response>\nx\n</tool_response>"


def test_calls_made_at_once_are_one_turn_and_so_are_their_outputs() -> None:
    said = [
        items.text_message("user", "Hi"),
        items.text_message("assistant", "Let me see."),
        CALL,
        CALL,
        OUTPUT,
        {**OUTPUT, "output": [items.text_part("user", "x")]},
        items.text_message("user", "And?"),
        CALL,
    ]
    assert items.messages(said) == [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": f"Let me see.\n{CALLED}\n{CALLED}"},
        {"role": "user", "content": f"{ANSWERED}\n{ANSWERED}"},
        {"role": "user", "content": "And?"},
        {"role": "assistant", "content": CALLED},
    ]


def test_what_a_user_says_is_no_part_of_an_output() -> None:
    said = [items.text_message("user", "Hi"), CALL, OUTPUT, items.text_message("user", "Hi")]
    assert [message["role"] for message in items.messages(said)] == ["user", "assistant", "user", "user"]


def test_arguments_that_are_no_json_are_shown_as_the_text_they_are() -> None:
    (message,) = items.messages([{**CALL, "arguments": '{"a": "unfinished'}])
    written = message["content"].removeprefix("<tool_call>\n").removesuffix("\n</tool_call>")
    assert json.loads(written) == {"name": "f", "arguments": '{"a": "unfinished'}


def test_reasoning_is_no_message() -> None:
    assert items.messages([{"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm"}]}]) == []


def test_an_items_id_tells_its_task() -> None:
    task_id = new_id("task")
    named = items.named([items.text_message("user", "Hi"), CALL, {**OUTPUT, "id": "fco_mine"}], task_id)
    ids = [item["id"] for item in named]
    assert ids[2] == "fco_mine"
    assert [items.task_of(item_id) for item_id in ids[:2]] == [task_id, task_id]
    outputs = {items.new_output_id(task_id) for _ in range(3)}
    assert {items.task_of(item_id) for item_id in outputs} == {task_id}
    assert len(outputs | set(ids)) == 6


def test_ids_tell_their_time() -> None:
    suffix = new_suffix()
    made = moment_of(suffix)
    second = int(made.timestamp())
    assert made.microsecond % 1000 == 0
    assert first_id_at("task", second) <= f"task_{suffix}" < first_id_at("task", second + 1)
