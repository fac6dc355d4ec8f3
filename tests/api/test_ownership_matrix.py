"""Every way to name something of somebody else's: the answer is that to an id that there never was, byte for byte."""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from clients_app.scopes import ALL
from lmsp_site.ids import new_suffix
from tests.api.bodies import STORY, body, error
from tests.api.clients import paired
from tests.service import Service

SSE = {"Accept": "text/event-stream"}
CREATING = ("/v1/tasks", "/v1/responses", "/v1/responses/input_tokens", "/v1/responses/compact")
MALFORMED = ("x", "task_", "%00", "%27%22%5C", "%F0%9F%92%A9", "a" * 3000, "TASK_1", "..%2e", "%20", "-1", "1e9")


class Way(NamedTuple):
    """One way to name something: method, address, and the rest of the request, with places for ids."""

    method: str
    path: str
    options: dict[str, Any] = {}

    def named(self, ids: dict[str, str]) -> "Way":
        """Return the same with `ids` in their places."""
        text = json.dumps([self.path, self.options])
        for name, value in ids.items():
            text = text.replace(f"<{name}>", value)
        return Way(self.method, *json.loads(text))


def _prompt(**fields: Any) -> dict[str, Any]:
    return {"json": body(**fields)}


def _reference() -> list[dict[str, Any]]:
    return [{"type": "item_reference", "id": "<item>"}, {"role": "user", "content": "And?"}]


READING = [
    Way("GET", "/v1/tasks/<task>"),
    Way("GET", "/v1/tasks/<task>/events"),
    Way("GET", "/v1/tasks/<task>/events?after=nonsense&limit=0"),
    Way("GET", "/v1/tasks/<task>/events", {"headers": SSE}),
    Way("GET", "/v1/tasks/<task>/events?after=nonsense", {"headers": SSE}),
    Way("POST", "/v1/tasks/<task>/cancel"),
    Way("DELETE", "/v1/tasks/<task>"),
    Way("GET", "/v1/responses/<response>"),
    Way("GET", "/v1/responses/<response>?stream=true"),
    Way("GET", "/v1/responses/<response>?stream=true&starting_after=nonsense"),
    Way("POST", "/v1/responses/<response>/cancel"),
    Way("DELETE", "/v1/responses/<response>"),
    Way("GET", "/v1/responses/<response>/input_items"),
    Way("GET", "/v1/responses/<response>/input_items?after=<item>"),
]
LISTING = [
    Way("GET", "/v1/tasks?after=<task>"),
    Way("GET", "/v1/tasks?before=<task>"),
    Way("GET", "/v1/tasks?after=<response>"),
    Way("GET", "/v1/responses/<own_response>/input_items?after=<item>"),
    Way("GET", "/v1/responses/<own_response>/input_items?before=<item>"),
]
CONTINUING = [
    *(Way("POST", path, _prompt(previous_response_id="<response>")) for path in CREATING),
    *(Way("POST", path, {"json": body() | {"input": _reference()}}) for path in CREATING),
    Way("POST", "/v1/responses", _prompt(previous_response_id="<response>", stream=True)),
    Way("POST", "/v1/responses", _prompt(previous_response_id="<response>", background=True)),
]


def ids_of(task: dict[str, Any]) -> dict[str, str]:
    suffix = task["id"].removeprefix("task_")
    return {"task": task["id"], "response": task["response_id"], "item": f"msg_{suffix}", "suffix": suffix}


@pytest.fixture(scope="module")
def owned(service: Service) -> dict[str, dict[str, str]]:
    """What somebody else has: a task that has finished, one that runs, and one that waits for that one."""
    return {
        "finished": ids_of(service.finished(service.create("Hi", max_output_tokens=2)["id"])),
        "unfinished": ids_of(service.create(STORY, max_output_tokens=2000)),
    }


@pytest.fixture(scope="module", autouse=True)
def _ended(service: Service, owned: dict[str, dict[str, str]]) -> Iterator[None]:
    yield
    service.request("POST", f"/v1/tasks/{owned['unfinished']['task']}/cancel")


@pytest.fixture(scope="module")
def asker(service: Service) -> Iterator[httpx.Client]:
    """A client that may do everything, with what is its own."""
    with service.http(token=paired(service, "asker", *ALL).token) as http:
        yield http


@pytest.fixture(scope="module")
def own(asker: httpx.Client) -> dict[str, str]:
    answer = asker.post("/v1/responses", json=body())
    assert answer.status_code == 200, answer.text
    return ids_of({"id": answer.json()["lmsp"]["task_id"], "response_id": answer.json()["id"]})


def ask(http: httpx.Client, way: Way) -> httpx.Response:
    return http.request(way.method, way.path, **way.options)


def shown(answer: httpx.Response) -> tuple[int, dict[str, str], str]:
    """Return all that a caller gets, but for the time of day."""
    headers = {name: value for name, value in answer.headers.items() if name != "date"}
    return answer.status_code, headers, answer.text


@pytest.mark.parametrize("state", ["finished", "unfinished"])
@pytest.mark.parametrize("way", [*READING, *LISTING, *CONTINUING], ids=lambda way: f"{way.method} {way.path}")
def test_a_foreign_id_is_answered_as_an_unknown_one(
    way: Way, state: str, asker: httpx.Client, own: dict[str, str], owned: dict[str, dict[str, str]]
) -> None:
    foreign = {**owned[state], "own_response": own["response"]}
    suffix = new_suffix()
    unknown = {name: value.replace(foreign["suffix"], suffix) for name, value in foreign.items()}
    told, of_none = ask(asker, way.named(foreign)), ask(asker, way.named(unknown))
    assert told.status_code in (400, 404)
    error(told, told.status_code)
    status, headers, text = shown(told)
    assert shown(of_none) == (status, headers, text.replace(foreign["suffix"], suffix))


@pytest.mark.parametrize("way", [*READING, *LISTING, *CONTINUING], ids=lambda way: f"{way.method} {way.path}")
def test_ones_own_id_is_not(way: Way, asker: httpx.Client, own: dict[str, str]) -> None:
    mine = own
    if way.method == "DELETE":
        made = asker.post("/v1/responses", json=body(max_output_tokens=1)).json()
        mine = ids_of({"id": made["lmsp"]["task_id"], "response_id": made["id"]})
    answer = ask(asker, way.named({**mine, "item": _an_item(asker, mine), "own_response": mine["response"]}))
    refused = "nonsense" in way.path or way.path.endswith("=<response>")
    assert answer.status_code == 400 if refused else answer.status_code < 300, answer.text


def _an_item(asker: httpx.Client, mine: dict[str, str]) -> str:
    (item,) = asker.get(f"/v1/responses/{mine['response']}/input_items").json()["data"]
    item_id: str = item["id"]
    return item_id


@pytest.mark.parametrize("way", READING, ids=lambda way: f"{way.method} {way.path}")
def test_what_can_be_no_id_is_answered_as_an_unknown_one(way: Way, asker: httpx.Client) -> None:
    unknown = ask(asker, way.named({"task": "unknown", "response": "unknown", "item": "unknown"}))
    code = error(unknown, 404)["code"]
    for text in MALFORMED:
        answer = ask(asker, way.named({"task": text, "response": text, "item": text}))
        assert error(answer, 404)["code"] in (code, "not_found"), text


def test_lists_hold_what_is_ones_own(
    service: Service, asker: httpx.Client, own: dict[str, str], owned: dict[str, dict[str, str]]
) -> None:
    for query in ("", "?order=asc", "?status=completed", "?status=queued,running,loading", "?created_after=0"):
        listed = asker.get(f"/v1/tasks{query}").text
        assert not any(ids["suffix"] in listed for ids in owned.values())
    assert own["task"] in asker.get("/v1/tasks").text
    assert own["task"] not in service.request("GET", "/v1/tasks?limit=100").text


@pytest.mark.parametrize("path", ["/v1/tasks", "/v1/responses"])
def test_a_foreign_idempotency_key_is_a_new_one(path: str, service: Service, asker: httpx.Client) -> None:
    headers = {"Idempotency-Key": f"matrix {path}"}
    first = service.request("POST", path, json=body("One"), headers=headers)
    assert service.request("POST", path, json=body("Two"), headers=headers).status_code == 422
    # Neither what the other has asked nor what it was told can be found out.
    other = asker.post(path, json=body("Two"), headers=headers)
    assert other.status_code == first.status_code
    assert "idempotent-replayed" not in other.headers
    assert other.json()["id"] != first.json()["id"]
    again = asker.post(path, json=body("Two"), headers=headers)
    assert (again.headers["idempotent-replayed"], again.json()["id"]) == ("true", other.json()["id"])


def test_a_foreign_compaction_is_one_that_this_service_has_not_made(service: Service, asker: httpx.Client) -> None:
    output = service.request("POST", "/v1/responses/compact", json={"model": body()["model"], "input": "Hi"}).json()
    sealed = output["output"][-1]["encrypted_content"]
    answers = [
        asker.post("/v1/responses", json=body() | {"input": [{"type": "compaction", "encrypted_content": content}]})
        for content in (sealed, sealed[:-2] + "xx")
    ]
    assert error(answers[0], 400)["code"] == "invalid_encrypted_content"
    assert shown(answers[0]) == shown(answers[1])


# --- Websockets. ---


def conversation(service: Service, asker: httpx.Client, path: str, *said: dict[str, Any]) -> list[Any]:
    """Return what a socket of the asker tells, an answer for each frame, and its close code if that comes."""
    headers = {"Authorization": asker.headers["Authorization"]}
    told: list[Any] = []
    with connect(f"ws://127.0.0.1:{service.port}{path}", additional_headers=headers, open_timeout=30) as opened:
        try:
            for frame in said or [None]:
                if frame is not None:
                    opened.send(json.dumps(frame))
                told.append(json.loads(opened.recv(timeout=30)))
            if not said:
                opened.recv(timeout=30)
        except ConnectionClosed as closed:
            told.append(closed.rcvd and closed.rcvd.code)
    return told


FRAMES: list[dict[str, Any]] = [
    {"type": "subscribe", "task_id": "<task>"},
    {"type": "subscribe", "task_id": "<task>", "after": 3},
    {"type": "unsubscribe", "task_id": "<task>"},
    {"type": "resume", "cursors": {"<task>": 0}},
    {"type": "subscribe", "tasks": "all", "since": "<task>"},
]
CREATE = {"type": "response.create", **body()}
SPOKEN = [
    ("/v1/tasks/<task>/events", ()),
    ("/v1/tasks/<task>/events?after=nonsense", ()),
    *(("/v1/events", (frame,)) for frame in FRAMES),
    ("/v1/responses", ({**CREATE, "previous_response_id": "<response>"},)),
    ("/v1/responses", ({**CREATE, "previous_response_id": "<response>", "generate": False},)),
    ("/v1/responses", ({**CREATE, "input": _reference()},)),
]


@pytest.mark.parametrize("state", ["finished", "unfinished"])
@pytest.mark.parametrize(("path", "said"), SPOKEN, ids=str)
def test_a_socket_answers_a_foreign_id_as_an_unknown_one(
    path: str,
    said: tuple[dict[str, Any], ...],
    state: str,
    service: Service,
    asker: httpx.Client,
    owned: dict[str, dict[str, str]],
) -> None:
    foreign = owned[state]
    # Of the same age: what `since` reaches back to must be the same.
    suffix = foreign["suffix"][:-4] + ("0000" if foreign["suffix"][-4:] != "0000" else "1111")
    told = []
    for ids in (foreign, {name: value.replace(foreign["suffix"], suffix) for name, value in foreign.items()}):
        way = Way("WS", path, {"said": said}).named(ids)
        told.append(json.dumps(conversation(service, asker, way.path, *way.options["said"])))
    assert told[1] == told[0].replace(foreign["suffix"], suffix)
    assert "response.created" not in told[0]


def test_all_tasks_are_all_of_ones_own(service: Service, asker: httpx.Client, own: dict[str, str]) -> None:
    headers = {"Authorization": asker.headers["Authorization"]}
    with connect(f"ws://127.0.0.1:{service.port}/v1/events", additional_headers=headers, open_timeout=30) as opened:
        opened.send(json.dumps({"type": "subscribe", "tasks": "all", "since": own["task"]}))
        foreign = service.create("Hi", max_output_tokens=1)["id"]
        service.finished(foreign)
        mine = asker.post("/v1/tasks", json=body(max_output_tokens=1)).json()["id"]
        told: set[str] = set()
        with suppress(TimeoutError):
            while (frame := json.loads(opened.recv(timeout=30))) != {"type": "ended", "task_id": mine}:
                told |= {frame["task_id"]} if "task_id" in frame else set()
    assert mine in told
    assert foreign not in told
