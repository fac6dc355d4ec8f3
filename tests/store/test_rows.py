"""A row that is inserted with a ready-made statement is the row that the ORM would have stored."""

from typing import Any

from django.db import models

from clients_app.models import Client
from lmsp_site import rows
from lmsp_site.ids import new_suffix
from tasks_app import lifecycle
from tasks_app.models import Response, Snapshot, Task

_OF_ITS_OWN = ("id", "task_id", "created_at")


def stored(row: models.Model) -> dict[str, Any]:
    return dict(type(row)._base_manager.filter(pk=row.pk).values()[0])


def test_a_row_is_what_save_would_have_stored(client: Client) -> None:
    def make() -> tuple[Task, Response, Snapshot]:
        suffix = new_suffix()
        task = Task(
            id=f"task_{suffix}",
            client=client,
            model="m",
            metadata={"a": "é", "b": "☃"},
            created_at=lifecycle.now(),
            expires_at=lifecycle.now().replace(microsecond=0),
            ends_with_caller=True,
            progress={"phase": "loading", "done": 0.5},
        )
        response = Response(id=f"resp_{suffix}", task=task, request={"seed": 2**52, "stop": ["é"]}, store=False)
        return task, response, Snapshot(task=task, prompt=b"\x00\x01\xff", seed=2**52)

    ready, saved = make(), make()
    for one, other in zip(ready, saved, strict=True):
        if isinstance(one, Task):
            one.expires_at = other.expires_at  # type: ignore[attr-defined]
        rows.insert(one)
        other.save(force_insert=True)
        ours, theirs = stored(one), stored(other)
        assert ours.keys() == theirs.keys()
        assert {name: ours[name] for name in ours if name not in _OF_ITS_OWN} == {
            name: theirs[name] for name in theirs if name not in _OF_ITS_OWN
        }
        assert ours.get("created_at") is not None or "created_at" not in ours
    # Both are rows that the ORM goes on with.
    ready[0].priority = 20
    ready[0].save()
    assert Task.objects.get(pk=ready[0].pk).priority == 20
