"""A row that is written or read with a ready-made statement is the row that the ORM would have stored, or found."""

from typing import Any

import pytest
from django.db import models

from clients_app.models import Client
from lmsp_site import rows
from lmsp_site.ids import new_suffix
from lmsp_site.models import ServiceConfig
from models_app.models import LanguageModel
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


def test_a_row_is_read_as_the_orm_reads_it(client: Client) -> None:
    LanguageModel.objects.create(
        id="m",
        file="m.gguf",
        digest="sha256:0",
        size_bytes=2**40,
        trained_context_length=8192,
        has_chat_template=False,
        files=[{"name": "é", "size": 1}],
        sampling={"temperature": 0.5},
        checked_at=lifecycle.now(),
    )
    for kind in (LanguageModel, Client, ServiceConfig):
        (expected,) = kind._base_manager.all()
        (found,) = rows.select(kind, "id = %s", (expected.pk,))
        for field in kind._meta.concrete_fields:
            value = getattr(found, field.attname)
            assert value == getattr(expected, field.attname)
            assert type(value) is type(getattr(expected, field.attname))
            assert rows.value(kind, field.attname, "id = %s", (expected.pk,)) == value
        # The ORM goes on with it.
        found.save()
    assert rows.select(Client, "id = %s", ("another",)) == []
    with pytest.raises(LookupError, match="client"):
        rows.value(Client, "name", "id = %s", ("another",))
