"""What grows with the tasks that are stored: their bytes, and what is done with one of them or a page."""

import http.client
import shutil
import statistics
from collections.abc import Callable

from bench import asking, costs
from bench.growth.series import FLAT, Series
from bench.service import MODEL, Service, in_django
from bench.subjects import Subjects

_STEPS = (1_000, 10_000, 100_000, 1_000_000)
_SAMPLES = 21
_OVER = "tasks stored"
_BODY = {"model": MODEL, "input": "Tell me a story of a lighthouse.", "max_output_tokens": 64}
_ACCEPT = "POST /v1/tasks"
_CLAIM = "claim of the next task"


def measure(subjects: Subjects) -> tuple[list[Series], float]:
    """Fill a service of its own step by step; return each cost's series, and the cores that others used at most.

    The service decodes nothing and its workers stand still while tasks are accepted and claimed: what is measured is
    the database and what asks it.
    """
    service = Service(subjects.service.data_dir.with_name("growth"), subjects.options.model)
    points: dict[tuple[str, str], list[tuple[int, float]]] = {}
    foreign, had = 0.0, 0
    with service:
        session = in_django(service.data_dir, "many_tasks", "sign_in('growth')")["session"]
        empty = _file_bytes(service)
        for tasks in _STEPS[: subjects.options.growth_steps]:
            added = in_django(service.data_dir, "many_tasks", f"add({had}, {tasks})")
            points.setdefault(("bytes in the database for each task", "B"), []).append(
                (tasks, (_file_bytes(service) - empty) / tasks)
            )
            had = tasks
            for title, ask in _operations(service, session, added["task"], added["response"]).items():
                took, cost = costs.accounted(subjects, ask, service)
                points.setdefault((title, "ms"), []).append((tasks, statistics.median(took)))
                if title != _CLAIM:  # its process counts as foreign
                    foreign = max(foreign, cost.foreign / cost.seconds)
    shutil.rmtree(service.data_dir)
    return [_series(title, unit, found) for (title, unit), found in points.items()], foreign


def _operations(service: Service, session: str, task: str, response: str) -> dict[str, Callable[[], list[float]]]:
    """Return what is done, each as a call that returns how many milliseconds each time took.

    Args:
        service: that is asked.
        session: of somebody who has signed in to the admin.
        task: one in the middle of the list.
        response: one that has finished.
    """
    token, cookie = {"Authorization": f"Bearer {service.token}"}, {"Cookie": f"sessionid={session}"}

    def get(path: str, headers: dict[str, str]) -> Callable[[], list[float]]:
        return lambda: asking.times(service.address, path, headers, _SAMPLES)

    def accept() -> list[float]:
        with service.workers_stopped():
            took = asking.times(service.address, "/v1/tasks", token, _SAMPLES, body=_BODY, status=http.client.ACCEPTED)
            in_django(service.data_dir, "left_over", "cancel_queued()")
        return took

    def claim() -> list[float]:
        with service.workers_stopped():
            took: list[float] = in_django(service.data_dir, "many_tasks", f"claim({_SAMPLES})")["milliseconds"]
        return took

    return {
        _ACCEPT: accept,
        _CLAIM: claim,
        "GET /v1/tasks": get("/v1/tasks", token),
        "GET /v1/tasks from the middle": get(f"/v1/tasks?after={task}", token),
        "GET /v1/responses/{id}": get(f"/v1/responses/{response}", token),
        "list of tasks in the admin": get("/admin/tasks_app/task/", cookie),
    }


def _series(title: str, unit: str, points: list[tuple[int, float]]) -> Series:
    words = "".join(letter if letter.isalnum() else " " for letter in title.lower()).split()
    return Series("tasks_" + "_".join(words), title, _OVER, unit, points, FLAT)


def _file_bytes(service: Service) -> int:
    """Return the length of the database, all of it in its file."""
    service.empty_log()
    return service.database.stat().st_size
