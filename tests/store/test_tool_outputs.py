"""Calls and reasoning as items of an output: the events that tell of them, the log, and a run that goes on."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from clients_app.models import Client
from models_app.parsing.call_formats import HERMES
from models_app.parsing.parser import OutputParser
from tasks_app import event_log, lifecycle, responses
from tasks_app.audit import audit
from tasks_app.chat_completions import Chunks, completion
from tasks_app.event_log import Entry, Event
from tasks_app.lifecycle import Run
from tasks_app.models import Task
from tasks_app.output import Output
from tasks_app.states import EventType
from tests.conformance import open_responses
from tests.store import tasks

ARGUMENTS = '{"city": "Rome"}'
SAID = (
    "<think>\nRome it is.\n</think>\n\nLet me see.\n"
    '<tool_call>\n{"name": "get_weather", "arguments": ' + ARGUMENTS + "}\n</tool_call>\n"
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Os'
)


def parser(**options: Any) -> OutputParser:
    return OutputParser(HERMES, ["get_weather"], "tagged", **options)


def entries(events: list[Event]) -> list[Entry]:
    return [Entry(number, event.type, event_log.encode(event.data)) for number, event in enumerate(events)]


def written(text: str, status: str = "completed", size: int = 7) -> tuple[Output, list[Event]]:
    output = Output("task_01", parser())
    events = [event for at in range(0, len(text), size) for event in output.write(text[at : at + size])]
    return output, [*events, *output.close(status)]


def kinds(events: list[Event]) -> list[str]:
    """Return the types of events, each once where it follows itself."""
    found = [event.type.removeprefix("response.") for event in events]
    return [kind for index, kind in enumerate(found) if index == 0 or found[index - 1] != kind]


def test_each_item_is_opened_told_and_closed_before_the_next() -> None:
    output, events = written(SAID, "incomplete")
    arguments = ["function_call_arguments.delta", "function_call_arguments.done"]
    assert kinds(events) == [
        *("output_item.added", "reasoning_summary_part.added", "reasoning_summary_text.delta"),
        *("reasoning_summary_text.done", "reasoning_summary_part.done", "output_item.done"),
        *("output_item.added", "content_part.added", "output_text.delta"),
        *("output_text.done", "content_part.done", "output_item.done"),
        *("output_item.added", *arguments, "output_item.done") * 2,
    ]
    for entry in entries(events):
        open_responses.check_event(json.loads(entry.to_json()))
    items = output.items("incomplete")
    open_responses.check_items(items)
    assert [item["type"] for item in items] == ["reasoning", "message", "function_call", "function_call"]
    assert items[0]["summary"] == [{"type": "summary_text", "text": "Rome it is."}]
    assert items[1]["content"][0]["text"] == "Let me see."
    assert [item.get("status") for item in items] == [None, "completed", "completed", "incomplete"]
    assert [item["arguments"] for item in items[2:]] == [ARGUMENTS, '{"city": "Os']
    assert len({item["id"] for item in items}) == 4
    assert items[2]["call_id"] != items[3]["call_id"]


def test_a_call_that_is_not_whole_is_incomplete_in_a_complete_output() -> None:
    output, _ = written(SAID)
    assert [item.get("status") for item in output.items("completed")][2:] == ["completed", "incomplete"]


def test_a_log_that_is_read_back_is_the_output() -> None:
    output, events = written(SAID, "incomplete")
    for length in range(len(events) + 1):
        read = Output("task_01")
        for entry in entries(events[:length]):
            read.apply(entry)
        if length == len(events):
            assert read.items("incomplete") == output.items("incomplete")
        else:
            open_responses.check_items(read.items("in_progress"))


@pytest.mark.parametrize("cut", range(0, len(SAID) + 1, 3))
def test_a_run_that_is_resumed_says_what_is_left_and_opens_nothing_again(cut: int) -> None:
    first = Output("task_01", parser())
    before = first.write(SAID[:cut])
    resumed = Output("task_01", parser())
    for entry in entries(before):
        resumed.apply(entry)
    assert resumed.take_up(SAID[:cut])
    after = [*resumed.write(SAID[cut:]), *resumed.close("incomplete")]
    whole, events = written(SAID, "incomplete")
    told = Output("task_01")
    for entry in entries(before + after):
        told.apply(entry)

    def shown(output: Output) -> list[dict[str, Any]]:
        return [{**item, "id": "", "call_id": ""} for item in output.items("incomplete")]

    assert shown(told) == shown(resumed) == shown(whole)
    assert kinds(before + after) == kinds(events)


def test_a_log_that_says_something_else_than_the_journal_is_noticed() -> None:
    resumed = Output("task_01", parser())
    for entry in entries(Output("task_01", parser()).write(SAID.replace("Rome", "Oslo"))):
        resumed.apply(entry)
    assert not resumed.take_up(SAID)


def test_after_its_last_call_an_output_is_over() -> None:
    output = Output("task_01", parser(most_calls=1))
    output.write(SAID[:-1])
    assert output.is_over
    assert output.write(SAID[-1:]) == []
    output.close("completed")
    assert [item["type"] for item in output.items("completed")] == ["reasoning", "message", "function_call"]


def finish(run: Run, text: str, reasoning_tokens: int = 0) -> Output:
    output = Output.of(run.task_id, parser())
    lifecycle.append(run, 0, [100], [1], output.write(text[:80]))
    closing = [*output.write(text[80:]), *output.close("completed")]
    output.reasoning_tokens = reasoning_tokens
    lifecycle.complete(run, 1, [7], [1], closing, output, None)
    return output


def test_a_task_with_calls_is_sound_and_counts_its_reasoning(client: Client, database: Path) -> None:
    task, run = tasks.running(client)
    finish(run, SAID, reasoning_tokens=2)
    assert audit(database)["violations"] == []
    response = responses.current(Task.objects.get(pk=task.id))
    open_responses.check_response(response)
    assert response["usage"]["output_tokens_details"] == {"reasoning_tokens": 2}


@pytest.mark.parametrize("kind", ["function_call_arguments", "reasoning_summary_text"])
def test_the_audit_reads_arguments_and_reasoning(client: Client, database: Path, kind: str) -> None:
    _, run = tasks.running(client)
    finish(run, SAID)
    with connection.cursor() as cursor:
        cursor.execute("DROP TRIGGER events_of_unfinished_tasks_are_not_changed")
        cursor.execute(
            "UPDATE task_events SET data = replace(data, 'Rome', 'Oslo') WHERE type = %s", [f"response.{kind}.delta"]
        )
        assert cursor.rowcount
    found = {violation["rule"] for violation in audit(database)["violations"]}
    assert "deltas_equal_text" in found


def test_a_chat_completion_has_the_calls(client: Client) -> None:
    task, run = tasks.running(client)
    finish(run, SAID)
    response = responses.current(Task.objects.get(pk=task.id))
    choice = completion(response)["choices"][0]
    calls = [item for item in response["output"] if item["type"] == "function_call"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] == "Let me see."
    assert choice["message"]["tool_calls"] == [
        {"id": call["call_id"], "type": "function", "function": {"name": "get_weather", "arguments": call["arguments"]}}
        for call in calls
    ]
    chunks = Chunks(with_usage=False)
    deltas = [chunk["choices"][0]["delta"] for entry in event_log.read(task.id) for chunk in chunks.of(entry)]
    told: dict[int, dict[str, Any]] = {}
    for delta in deltas:
        for part in delta.get("tool_calls", ()):
            call = told.setdefault(part["index"], {"function": {"arguments": ""}})
            arguments = call["function"]["arguments"] + part["function"]["arguments"]
            call |= {**part, "function": {**call["function"], **part["function"], "arguments": arguments}}
    assert [{**call} for call in choice["message"]["tool_calls"]] == [
        {name: value for name, value in call.items() if name != "index"} for call in told.values()
    ]
    last = Entry(1, EventType.COMPLETED, event_log.encode({"response": response}))
    again = [chunk["choices"][0] for chunk in Chunks(with_usage=False).of(last)]
    assert [part["index"] for choice in again for part in choice["delta"].get("tool_calls", ())] == [0, 1]
    assert again[-1]["finish_reason"] == "tool_calls"
