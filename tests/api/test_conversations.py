"""Several turns: items of every kind as input, and previous_response_id."""

import json
from typing import Any

import httpx
import pytest

from tests.api.bodies import CREATING, STORY, body, error
from tests.api.conversations import CALL, OUTPUT, input_items, prompt, say, text_of, user
from tests.service import Service, eventually


def test_going_on_is_to_send_all_of_it_again(service: Service, http: httpx.Client) -> None:
    first = say(http, "My name is Ann.")
    second = say(http, "And I like the sea.", previous_response_id=first["id"])
    third = say(http, [user("Who am I?")], previous_response_id=second["id"])
    assert third["previous_response_id"] == second["id"]
    whole = [user("My name is Ann."), *first["output"], user("And I like the sea."), *second["output"]]
    again = say(http, [*whole, user("Who am I?")])
    assert prompt(service, third) == prompt(service, again)
    assert third["output"][0]["content"] == again["output"][0]["content"]
    assert [item["id"] for item in input_items(http, third)][:4] == [
        item["id"] for item in input_items(http, second) + second["output"]
    ]


def test_a_turn_without_input_goes_on_from_the_last_one(service: Service, http: httpx.Client) -> None:
    first = say(http, "Say hello.")
    request = body(previous_response_id=first["id"])
    del request["input"]
    answer = http.post("/v1/responses", json=request)
    assert answer.status_code == 200
    assert prompt(service, answer.json()) == prompt(service, say(http, [user("Say hello."), *first["output"]]))


def test_instructions_are_those_of_the_turn(service: Service, http: httpx.Client) -> None:
    first = say(http, "Hi", instructions="Be brief.")
    second = say(http, "Hello", previous_response_id=first["id"])
    assert second["instructions"] is None
    turns = [user("Hi"), *first["output"], user("Hello")]
    assert prompt(service, second) == prompt(service, say(http, turns))
    other = say(http, "Hello", previous_response_id=first["id"], instructions="Be loud.")
    assert prompt(service, other) == prompt(service, say(http, turns, instructions="Be loud."))


def test_messages_of_the_developer_are_the_systems_and_are_inherited(service: Service, http: httpx.Client) -> None:
    first = say(http, [{"role": "developer", "content": "Be brief."}, user("Hi")])
    assert prompt(service, first) == prompt(service, say(http, "Hi", instructions="Be brief."))
    second = say(http, "Hello", previous_response_id=first["id"])
    assert text_of(input_items(http, second)[0]) == "Be brief."


def test_every_way_to_write_a_message_is_one_prompt(service: Service, http: httpx.Client) -> None:
    parts = [{"type": "input_text", "text": "Say "}, {"type": "input_text", "text": "hello."}]
    sent = {"type": "output_text", "text": "Hello.", "annotations": [], "logprobs": []}
    ways: list[list[dict[str, Any]]] = [
        [user("Say hello."), {"role": "assistant", "content": "Hello."}, user("Again")],
        [
            {"type": "message", "role": "user", "content": parts, "status": "completed"},
            {
                "type": "message",
                "role": "assistant",
                "id": "msg_mine",
                "status": "completed",
                "content": [sent],
                "phase": "final_answer",
            },
            {"type": "message", "role": "user", "content": [{"type": "text", "text": "Again"}]},
        ],
    ]
    one, other = (say(http, way) for way in ways)
    assert prompt(service, one) == prompt(service, other)
    kept = input_items(http, other)[1]
    assert (kept["id"], kept["phase"], kept["content"]) == ("msg_mine", "final_answer", [sent])
    assert "phase" not in other["output"][0]


def test_a_refusal_that_is_sent_back_is_what_the_assistant_said(service: Service, http: httpx.Client) -> None:
    refusal = {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}
    plain = {"role": "assistant", "content": "No."}
    assert prompt(service, say(http, [user("Go"), refusal])) == prompt(service, say(http, [user("Go"), plain]))


def test_reasoning_is_taken_and_not_repeated_to_the_model(service: Service, http: httpx.Client) -> None:
    reasoning = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "Thinking"}],
        "content": [{"type": "reasoning_text", "text": "Hm"}],
        "encrypted_content": "opaque",
    }
    with_it = say(http, [user("Hi"), reasoning, user("Hello")])
    assert prompt(service, with_it) == prompt(service, say(http, [user("Hi"), user("Hello")]))
    assert input_items(http, with_it)[1] == reasoning


def test_calls_and_their_outputs_are_text_to_a_model_without_tools(service: Service, http: httpx.Client) -> None:
    response = say(http, [user("What is the sea?"), CALL, OUTPUT])
    written = [
        user("What is the sea?"),
        {
            "role": "assistant",
            "content": '<tool_call>\n{"name": "look_up", "arguments": {"word":"sea"}}\n</tool_call>',
        },
        user("<tool_response>\nwater\n</tool_response>"),
    ]
    assert prompt(service, response) == prompt(service, say(http, written))
    _, call, output = input_items(http, response)
    assert call | CALL == call
    assert output | OUTPUT == output
    assert (call["id"][:3], output["id"][:4]) == ("fc_", "fco_")
    later = say(
        http,
        [{**OUTPUT, "output": [{"type": "input_text", "text": "water"}]}],
        previous_response_id=say(http, [CALL])["id"],
    )
    assert later["status"] == "incomplete"


def test_a_reference_is_the_item_itself(service: Service, http: httpx.Client) -> None:
    first = say(http, "Say hello.")
    (asked,) = input_items(http, first)
    (said,) = first["output"]
    by_id = say(http, [{"type": "item_reference", "id": asked["id"]}, {"id": said["id"]}, user("Again")])
    assert input_items(http, by_id)[:2] == [asked, said]
    assert prompt(service, by_id) == prompt(service, say(http, "Again", previous_response_id=first["id"]))


@pytest.mark.parametrize("path", CREATING)
@pytest.mark.parametrize("whose", ["nobody", "foreign", "not stored"])
def test_what_one_has_not_stored_cannot_be_gone_on_from(
    http: httpx.Client, stranger: httpx.Client, path: str, whose: str
) -> None:
    response_id, item_id = "resp_none", "msg_none"
    if whose != "nobody":
        earlier = say(stranger) if whose == "foreign" else say(http, store=False)
        response_id, item_id = earlier["id"], earlier["output"][0]["id"]
    found = error(http.post(path, json=body(previous_response_id=response_id)), 404)
    assert (found["code"], found["param"]) == ("response_not_found", "previous_response_id")
    assert response_id in found["message"]
    found = error(http.post(path, json=body() | {"input": [{"type": "item_reference", "id": item_id}]}), 404)
    assert (found["code"], found["param"]) == ("item_not_found", "input")
    assert item_id in found["message"]


def test_what_is_not_to_be_stored_is_none_while_it_runs(service: Service, http: httpx.Client) -> None:
    request = body(STORY, stream=True, store=False, max_output_tokens=1000)
    with service.http() as other, other.stream("POST", "/v1/responses", json=request) as stream:
        created = next(line for line in stream.iter_lines() if line.startswith("data: "))
        response = json.loads(created.removeprefix("data: "))["response"]
        found = error(http.post("/v1/responses", json=body(previous_response_id=response["id"])), 404)
    assert found["code"] == "response_not_found"
    service.finished(response["lmsp"]["task_id"])


def test_what_has_not_finished_cannot_be_gone_on_from(service: Service, http: httpx.Client) -> None:
    running = http.post("/v1/responses", json=body(STORY, background=True, max_output_tokens=1000)).json()
    item_id = eventually(
        lambda: [item["id"] for item in http.get(f"/v1/responses/{running['id']}").json()["output"]], 60
    )[0]
    answers = [
        http.post("/v1/responses", json=body(previous_response_id=running["id"])),
        http.post("/v1/responses", json=body() | {"input": [{"type": "item_reference", "id": item_id}]}),
    ]
    for answer in answers:
        assert error(answer, 409)["code"] == "response_not_finished"
        # To wait is what helps.
        assert "x-should-retry" not in answer.headers
    http.post(f"/v1/responses/{running['id']}/cancel")
    service.finished(running["lmsp"]["task_id"])
    cancelled = http.get(f"/v1/responses/{running['id']}").json()
    assert cancelled["status"] == "cancelled"
    on = say(http, "Go on.", previous_response_id=running["id"])
    assert input_items(http, on)[1] == cancelled["output"][0]


def test_an_item_that_comes_twice_is_refused(http: httpx.Client) -> None:
    first = say(http)
    both = body(previous_response_id=first["id"]) | {"input": [*first["output"], user("Hello")]}
    found = error(http.post("/v1/responses", json=both), 400)
    assert first["output"][0]["id"] in found["message"]


def test_a_turn_keeps_what_came_before_it_when_that_is_deleted(service: Service, http: httpx.Client) -> None:
    first = say(http, "My name is Ann.")
    second = say(http, "Hello", previous_response_id=first["id"])
    before = input_items(http, second)
    assert http.delete(f"/v1/responses/{first['id']}").status_code == 200
    assert input_items(http, second) == before
    third = say(http, "Who am I?", previous_response_id=second["id"])
    assert input_items(http, third)[:4] == before + second["output"]
    assert error(http.post("/v1/responses", json=body(previous_response_id=first["id"])), 404)


def test_a_long_chain_is_not_read_link_by_link(http: httpx.Client) -> None:
    last = say(http)
    for turn in range(12):
        last = say(http, f"Turn {turn}", previous_response_id=last["id"])
    items = input_items(http, last, limit=100)
    assert len(items) == 25
    assert [text_of(item) for item in items[2::2]] == [f"Turn {turn}" for turn in range(12)]
    assert len({item["id"] for item in items}) == 25


def test_a_conversation_of_too_many_items_is_refused(http: httpx.Client) -> None:
    # Reasoning makes no prompt longer.
    many = [{"type": "reasoning", "summary": []}] * 4095
    last = say(http, [*many, user("Hi")])
    found = error(http.post("/v1/responses", json=body(previous_response_id=last["id"])), 400)
    assert (found["param"], found["code"]) == ("input", "invalid_value")
    assert "4096" in found["message"]


def test_a_task_goes_on_from_a_response_too(service: Service, http: httpx.Client) -> None:
    first = say(http, "My name is Ann.")
    task = http.post("/v1/tasks", json=body("Hello", previous_response_id=first["id"])).json()
    service.finished(task["id"])
    response = http.get(f"/v1/responses/{task['response_id']}").json()
    assert prompt(service, response) == prompt(service, say(http, "Hello", previous_response_id=first["id"]))


def test_a_rerun_is_given_the_same_conversation(service: Service, http: httpx.Client) -> None:
    second = say(http, "Hello", previous_response_id=say(http, "My name is Ann.")["id"])
    made = service.manage("tasks", "rerun", second["lmsp"]["task_id"])
    service.finished(made["id"])
    again = http.get(f"/v1/responses/{made['response_id']}").json()
    assert prompt(service, again) == prompt(service, second)
    assert again["previous_response_id"] is None
