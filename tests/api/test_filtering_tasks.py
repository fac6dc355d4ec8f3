"""GET /v1/tasks narrowed by status, model, metadata and time."""

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import pytest

from tests.api.bodies import STORY, body, error
from tests.service import MODEL, Service, eventually


class Filed(NamedTuple):
    """A client with six finished tasks, oldest first; the second and the fifth are cancelled."""

    http: httpx.Client
    tasks: list[dict[str, Any]]

    def places(self, **parameters: Any) -> list[int]:
        """Return which of the tasks a list holds, in its order."""
        answer = self.http.get("/v1/tasks", params=parameters)
        assert answer.status_code == 200, answer.text
        ids = [task["id"] for task in self.tasks]
        return [ids.index(task["id"]) for task in answer.json()["data"]]


@pytest.fixture(scope="module")
def filed(service: Service) -> Iterator[Filed]:
    with service.http(token=service.pair("filer")) as http:
        tasks = []
        for place in range(6):
            cancelled = place in (1, 4)
            metadata = {"place": str(place), "kind": "odd" if place % 2 else "even", "7": "seven"}
            request = body(STORY if cancelled else "Hi", metadata=metadata, max_output_tokens=900 if cancelled else 1)
            task_id = http.post("/v1/tasks", json=request).json()["id"]
            if cancelled:
                http.post(f"/v1/tasks/{task_id}/cancel")
            if place == 3:
                # The API shows whole seconds, and not all of the tasks may be of one.
                time.sleep(1)
            tasks.append(eventually(lambda: (t := http.get(f"/v1/tasks/{task_id}").json())["finished_at"] and t, 60))  # noqa: B023 - at once
        yield Filed(http, tasks)


def test_one_status_or_several(filed: Filed) -> None:
    assert filed.places(status="cancelled") == [4, 1]
    assert filed.places(status="completed", order="asc") == [0, 2, 3, 5]
    everything = [5, 4, 3, 2, 1, 0]
    for both in ("completed,cancelled", ["completed", "cancelled"]):
        assert filed.places(status=both) == everything
    assert filed.places(**{"status[]": ["cancelled", "completed", "running"]}) == everything
    assert filed.places(status="failed") == []


def test_model_and_metadata(filed: Filed) -> None:
    assert filed.places(model=MODEL) == [5, 4, 3, 2, 1, 0]
    assert filed.places(model="other") == []
    assert filed.places(**{"metadata[kind]": "odd"}) == [5, 3, 1]
    assert filed.places(**{"metadata[kind]": "odd", "metadata[place]": "3"}) == [3]
    assert filed.places(**{"metadata[7]": "seven", "metadata[kind]": "even"}) == [4, 2, 0]
    assert filed.places(**{"metadata[kind]": "od"}) == []
    assert filed.places(**{"metadata[kind]": "odd", "status": "cancelled", "model": MODEL}) == [1]


def test_times_are_what_the_task_shows(filed: Filed) -> None:
    seconds = [task["created_at"] for task in filed.tasks]
    assert seconds[0] < seconds[-1]
    for second in {*seconds, seconds[0] - 1, seconds[-1] + 1}:
        later = [place for place in range(5, -1, -1) if seconds[place] > second]
        earlier = [place for place in range(5, -1, -1) if seconds[place] < second]
        assert filed.places(created_after=second) == later
        assert filed.places(created_before=second) == earlier
    assert filed.places(created_after=seconds[0] - 1, created_before=seconds[-1] + 1) == [5, 4, 3, 2, 1, 0]


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_pages_of_a_narrowed_list_are_all_of_it(filed: Filed, order: str) -> None:
    narrowed: dict[str, Any] = {"status": "completed,cancelled", "metadata[kind]": "even", "order": order, "limit": 1}
    seen: list[str] = []
    cursor: dict[str, str] = {}
    for _ in range(4):
        page = filed.http.get("/v1/tasks", params={**narrowed, **cursor}).json()
        seen += [task["id"] for task in page["data"]]
        if not page["has_more"]:
            break
        cursor = {"after": page["last_id"]}
    wanted = [filed.tasks[place]["id"] for place in (0, 2, 4)]
    assert seen == (wanted if order == "asc" else wanted[::-1])


def test_a_cursor_need_not_be_what_the_filter_admits(filed: Filed) -> None:
    # It may have been, when it was read.
    assert filed.places(status="completed", after=filed.tasks[4]["id"]) == [3, 2, 0]
    assert filed.places(status="completed", before=filed.tasks[1]["id"]) == [5, 3, 2]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("status", "completed,sleeping"),
        ("status[]", "sleeping"),
        ("created_after", "yesterday"),
        ("created_before", "-1"),
        ("created_before", "1.5"),
        ("metadata", "kind"),
        ("metadata[]", "odd"),
        ("metadata[" + "k" * 65 + "]", "odd"),
        ("Status", "completed"),
        ("offset", "5"),
    ],
)
def test_a_parameter_that_cannot_be_meant_is_refused(filed: Filed, name: str, value: str) -> None:
    found = error(filed.http.get("/v1/tasks", params={name: value}), 400)
    assert name.startswith(found["param"])
