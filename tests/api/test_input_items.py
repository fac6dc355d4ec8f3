"""GET /v1/responses/{id}/input_items."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import pytest

from tests.api.bodies import STORY, body, error
from tests.api.conversations import input_items, say, text_of, user
from tests.service import Service


class Given(NamedTuple):
    """A response to five messages."""

    http: httpx.Client
    response: dict[str, Any]
    ids: list[str]

    def get(self, **parameters: Any) -> httpx.Response:
        return self.http.get(f"/v1/responses/{self.response['id']}/input_items", params=parameters)

    def page(self, **parameters: Any) -> list[str]:
        answer = self.get(**parameters)
        assert answer.status_code == 200, answer.text
        found = answer.json()
        assert found.keys() == {"object", "data", "first_id", "last_id", "has_more"}
        ids = [item["id"] for item in found["data"]]
        assert (found["first_id"], found["last_id"]) == ((ids[0], ids[-1]) if ids else (None, None))
        return ids


@pytest.fixture(scope="module")
def given(service: Service) -> Iterator[Given]:
    with service.http() as http:
        response = say(http, [user(f"Message {number}") for number in range(5)])
        yield Given(http, response, [item["id"] for item in input_items(http, response)])


def test_what_was_sent_is_shown_with_ids_that_stay(given: Given) -> None:
    items = input_items(given.http, given.response)
    assert [text_of(item) for item in items] == [f"Message {number}" for number in range(5)]
    assert all(item | {"type": "message", "role": "user", "status": "completed"} == item for item in items)
    assert all(item["id"].startswith("msg_") for item in items)
    assert input_items(given.http, given.response) == items
    assert len(set(given.ids)) == 5


def test_pages_run_both_ways(given: Given) -> None:
    newest = given.ids[::-1]
    assert given.page() == given.page(order="desc") == newest
    assert given.page(order="asc", limit=2) == given.ids[:2]
    assert given.page(order="asc", limit=2, after=given.ids[1]) == given.ids[2:4]
    assert given.page(limit=3, after=newest[1]) == newest[2:]
    assert given.page(limit=2, before=newest[3]) == newest[1:3]
    assert given.page(after=newest[-1]) == []
    assert given.page(limit=1000) == newest
    assert given.get(limit=4).json()["has_more"] is True
    assert given.get(limit=5).json()["has_more"] is False


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("limit", "0"),
        ("limit", "many"),
        ("order", "up"),
        ("after", ""),
        ("after", "msg_none"),
        ("before", "msg_none"),
        ("include", "usage"),
        ("include[]", "usage"),
        ("page", "2"),
    ],
)
def test_a_parameter_that_cannot_be_meant_is_refused(given: Given, name: str, value: str) -> None:
    assert error(given.get(**{name: value}), 400)["param"] == name.removesuffix("[]")


def test_what_changes_nothing_may_be_included(given: Given) -> None:
    assert given.page(**{"include[]": ["message.input_image.image_url", "reasoning.encrypted_content"]})


def test_a_foreign_response_is_none(given: Given, stranger: httpx.Client) -> None:
    foreign, none = (
        error(stranger.get(f"/v1/responses/{response_id}/input_items"), 404)
        for response_id in (given.response["id"], "resp_none")
    )
    assert foreign["code"] == none["code"] == "response_not_found"


def test_what_an_unfinished_response_answers_is_shown_too(service: Service, http: httpx.Client) -> None:
    running = http.post("/v1/responses", json=body(STORY, background=True, max_output_tokens=1000)).json()
    assert [text_of(item) for item in input_items(http, running)] == [STORY]
    http.post(f"/v1/responses/{running['id']}/cancel")


def test_a_request_of_an_earlier_version_is_shown_too(service: Service, http: httpx.Client) -> None:
    response = say(http, "Hi")
    task_id = response["lmsp"]["task_id"]
    service.sql("DELETE FROM task_inputs WHERE task_id = ?", task_id)
    old = """UPDATE responses SET request = json_set(request, '$.input', json(?)) WHERE task_id = ?"""
    service.sql(old, '[{"role": "user", "content": "Hi"}]', task_id)
    assert [text_of(item) for item in input_items(http, response)] == ["Hi"]
    assert say(http, "Hello", previous_response_id=response["id"])["status"] == "incomplete"
