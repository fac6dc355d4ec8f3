"""Items of a conversation: their ids, and the messages a chat template is given."""

from lmsp_site.ids import first_id_at, moment_of, new_id, new_suffix
from tasks_app import items

CALL = {"type": "function_call", "status": "completed", "call_id": "c", "name": "f", "arguments": '{"a": 1}'}
OUTPUT = {"type": "function_call_output", "status": "completed", "call_id": "c", "output": "x"}


def test_calls_belong_to_the_message_before_them() -> None:
    said = [
        items.text_message("user", "Hi"),
        items.text_message("assistant", "Let me see."),
        CALL,
        {**CALL, "call_id": "d"},
        OUTPUT,
        {**OUTPUT, "call_id": "d", "output": [items.text_part("user", "x")]},
        items.text_message("user", "And?"),
        CALL,
    ]
    called = {"id": "c", "name": "f", "arguments": '{"a": 1}'}
    assert items.messages(said) == [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Let me see.", "tool_calls": [called, {**called, "id": "d"}]},
        {"role": "tool", "tool_call_id": "c", "name": "f", "content": "x"},
        {"role": "tool", "tool_call_id": "d", "name": "f", "content": "x"},
        {"role": "user", "content": "And?"},
        {"role": "assistant", "content": "", "tool_calls": [called]},
    ]


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


def test_ids_of_one_millisecond_are_in_the_order_they_were_made() -> None:
    suffixes = [new_suffix() for _ in range(5000)]
    assert len({moment_of(suffix) for suffix in suffixes}) < 2500
    assert suffixes == sorted(set(suffixes))
