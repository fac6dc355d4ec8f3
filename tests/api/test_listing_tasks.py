"""GET /v1/tasks: pages, cursors, order, filter."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import pytest

from tests.api.bodies import STORY, body, error
from tests.service import Service, eventually


class Listed(NamedTuple):
    """A client with five finished tasks, oldest first."""

    http: httpx.Client
    ids: list[str]


@pytest.fixture(scope="module")
def listed(service: Service) -> Iterator[Listed]:
    with service.http(token=service.pair("lister")) as http:
        ids = [http.post("/v1/tasks", json=body(max_output_tokens=1)).json()["id"] for _ in range(5)]
        for task_id in ids:
            eventually(lambda: http.get(f"/v1/tasks/{task_id}").json()["finished_at"], 60)  # noqa: B023 - at once
        yield Listed(http, ids)


def page(listed: Listed, **parameters: Any) -> dict[str, Any]:
    answer = listed.http.get("/v1/tasks", params=parameters)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    assert found.keys() == {"object", "data", "first_id", "last_id", "has_more"}
    assert found["object"] == "list"
    ids = [task["id"] for task in found["data"]]
    assert (found["first_id"], found["last_id"]) == ((ids[0], ids[-1]) if ids else (None, None))
    return found


def ids_of(listed: Listed, **parameters: Any) -> list[str]:
    return [task["id"] for task in page(listed, **parameters)["data"]]


def test_the_newest_comes_first_unless_asked_otherwise(listed: Listed) -> None:
    assert ids_of(listed) == ids_of(listed, order="desc") == listed.ids[::-1]
    assert ids_of(listed, order="asc") == listed.ids


def test_a_list_holds_what_the_task_itself_shows(listed: Listed) -> None:
    for task in page(listed)["data"]:
        alone = listed.http.get(f"/v1/tasks/{task['id']}").json()
        assert alone.pop("output_text")
        assert task == alone


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("limit", [1, 2, 5])
def test_pages_after_one_another_are_the_whole_list(listed: Listed, order: str, limit: int) -> None:
    seen: list[str] = []
    more = True
    while more:
        cursor = {"after": seen[-1]} if seen else {}
        found = page(listed, order=order, limit=limit, **cursor)
        seen += [task["id"] for task in found["data"]]
        more = found["has_more"]
        assert more is (len(seen) < 5)
    assert seen == (listed.ids if order == "asc" else listed.ids[::-1])


def test_before_is_after_read_backwards(listed: Listed) -> None:
    oldest, second, middle, fourth, newest = listed.ids
    found = page(listed, before=oldest, limit=2)
    assert [task["id"] for task in found["data"]] == [middle, second]
    assert found["has_more"] is True
    found = page(listed, before=middle, limit=2)
    assert [task["id"] for task in found["data"]] == [newest, fourth]
    assert found["has_more"] is False
    assert ids_of(listed, before=middle, order="asc") == [oldest, second]


def test_the_end_is_an_empty_page(listed: Listed) -> None:
    found = page(listed, after=listed.ids[0])
    assert (found["data"], found["has_more"]) == ([], False)
    assert page(listed, before=listed.ids[-1])["data"] == []


def test_a_limit_over_the_most_is_clamped(listed: Listed) -> None:
    assert ids_of(listed, limit=101) == ids_of(listed, limit=9007199254740991) == listed.ids[::-1]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("limit", value) for value in ("0", "-1", "2.5", "many", "", "1e3", "+1", "9" * 40, "٣")],
        *[(name, value) for name in ("after", "before") for value in ("", "task_unknown", "5", "%00", "' OR 1=1 --")],
        ("order", "up"),
        ("order", ""),
        ("status", "sleeping"),
        ("status", ""),
    ],
)
def test_a_parameter_that_cannot_be_meant_is_refused(listed: Listed, name: str, value: str) -> None:
    assert error(listed.http.get("/v1/tasks", params={name: value}), 400)["param"] == name


def test_after_and_before_together_are_refused(listed: Listed) -> None:
    both = {"after": listed.ids[0], "before": listed.ids[1]}
    assert error(listed.http.get("/v1/tasks", params=both), 400)["param"] == "before"


def test_a_foreign_task_is_no_cursor(listed: Listed, stranger: httpx.Client) -> None:
    foreign = stranger.get("/v1/tasks", params={"after": listed.ids[0]})
    unknown = stranger.get("/v1/tasks", params={"after": "task_unknown"})
    assert error(foreign, 400) == error(unknown, 400)


def test_a_list_holds_ones_own_tasks_only(listed: Listed, stranger: httpx.Client) -> None:
    theirs = {task["id"] for task in stranger.get("/v1/tasks", params={"limit": 100}).json()["data"]}
    assert not theirs & set(listed.ids)


def test_status_selects(service: Service, listed: Listed) -> None:
    assert ids_of(listed, status="completed") == listed.ids[::-1]
    assert ids_of(listed, status="failed") == []
    task_id = service.create(STORY, max_output_tokens=300)["id"]

    def has(status: str) -> bool:
        tasks = service.request("GET", "/v1/tasks", params={"status": status, "limit": 100}).json()["data"]
        assert {task["status"] for task in tasks} <= {status}
        return task_id in {task["id"] for task in tasks}

    eventually(lambda: has("running"), 60)
    service.request("POST", f"/v1/tasks/{task_id}/cancel")
    eventually(lambda: has("cancelled"), 60)
    assert not has("running")
