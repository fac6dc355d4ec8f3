"""A task by what a person types: an id, the beginning or end of one, or a response's."""

from datetime import UTC, datetime

from tasks_app.console import figures
from tasks_app.models import Task

_LEAST = 4
_MOST_SHOWN = 5
_PREFIX = "task_"
# Greater than every character of an id.
_LAST = "~"


class NotOne(Exception):
    """No task is meant, or more than one; the message says which are possible."""


def task(text: str) -> Task:
    """Return the task that `text` names, with client and response.

    Raises:
        NotOne: see its message.
    """
    # As the table of tasks shows it, and as other programs write it.
    wanted = text.strip().strip("….").lower().replace("resp_", _PREFIX, 1)
    tasks = Task.objects.kept().select_related("client", "response")
    named = tasks.filter(pk=wanted).first() or tasks.filter(response=text.strip()).first()
    if named:
        return named
    if len(wanted.removeprefix(_PREFIX)) < _LEAST:
        raise NotOne(f"There is no task {text!r}, and it is too short for a part of an id: {_LEAST} characters.")
    begin = wanted if wanted.startswith(_PREFIX) else f"{_PREFIX}{wanted}"
    matches = tasks.filter(id__gte=begin, id__lt=begin + _LAST)
    found = list(matches.order_by("-id")[: _MOST_SHOWN + 1])
    if not found:
        # Along the whole index of ids: some tenths of a second for a million.
        ids = tasks.filter(id__endswith=wanted).order_by("-id").values_list("pk", flat=True)[: _MOST_SHOWN + 1]
        found = list(tasks.filter(pk__in=list(ids)).order_by("-id"))
    if not found:
        raise NotOne(f"There is no task {text!r}.")
    if len(found) > 1:
        raise NotOne(f"{text!r} may be any of: {_possible(found)}.")
    return found[0]


def _possible(found: list[Task]) -> str:
    now = datetime.now(UTC)
    shown = [
        f"{one.id} ({one.status}, {figures.span(figures.since(one.created_at, now))} old)"
        for one in found[:_MOST_SHOWN]
    ]
    return ", ".join(shown) + (" and others" if len(found) > _MOST_SHOWN else "")
