"""kill -9 in the middle of a long output: a checkpoint spares most of the replay and changes nothing."""

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.service import Service, eventually

_STORY = "Write a long story about a lighthouse keeper."
_BODY = {"on_restart": "resume", "max_output_tokens": 150}
_SAVED_AFTER = 60


@pytest.fixture
def saving_service(tmp_path: Path) -> Iterator[Service]:
    """A service that takes 60 tokens for a long output."""
    with Service(tmp_path / "data", LMSP_CHECKPOINT_TOKENS=str(_SAVED_AFTER)) as running:
        yield running


def _checkpoint(service: Service, task: str) -> Path:
    return service.data_dir / "checkpoints" / task


def _killed_after_a_checkpoint(service: Service) -> str:
    task: str = service.create(_STORY, **_BODY)["id"]
    eventually(lambda: _checkpoint(service, task).exists(), 120, "a checkpoint is written")
    eventually(lambda: service.task(task)["usage"]["output_tokens"] > _SAVED_AFTER + 5, 60)
    service.kill()
    return task


def _restored(service: Service) -> list[int]:
    """Return how many tokens each replay had from a checkpoint, by the service's log."""
    return [int(count) for count in re.findall(r"from_checkpoint=(\d+)", service.log.read_text())]


def test_a_long_output_goes_on_from_its_checkpoint(saving_service: Service) -> None:
    twin = saving_service.finished(saving_service.create(_STORY, **_BODY)["id"])
    task = _killed_after_a_checkpoint(saving_service)
    saving_service.start()
    done = saving_service.finished(task)
    assert (done["status"], done["output_text"], done["usage"]) == ("completed", twin["output_text"], twin["usage"])
    (restored,) = _restored(saving_service)
    assert restored >= _SAVED_AFTER
    assert [event["exact"] for event in saving_service.events(task) if event.get("resumed")] == [True]
    eventually(lambda: not list(_checkpoint(saving_service, task).parent.iterdir()), 10, "the checkpoint is removed")
    saving_service.check_log()


def test_without_its_checkpoint_it_is_replayed_and_shows_how_far(saving_service: Service) -> None:
    twin = saving_service.finished(saving_service.create(_STORY, **_BODY)["id"])
    task = _killed_after_a_checkpoint(saving_service)
    _checkpoint(saving_service, task).unlink()
    saving_service.start()

    def shown() -> dict[str, Any]:
        progress: dict[str, Any] = saving_service.task(task)["progress"] or {}
        return progress if progress.get("phase") == "replay" else {}

    progress = eventually(shown, 30, "the replay shows")
    assert 0 < progress["done"] < progress["total"]
    assert progress["total"] > _SAVED_AFTER
    done = saving_service.finished(task)
    assert (done["output_text"], done["usage"]) == (twin["output_text"], twin["usage"])
    assert _restored(saving_service) == [0]
    saving_service.check_log()


def test_the_journal_is_followed_where_the_checkpoint_says_otherwise(saving_service: Service) -> None:
    """Alter a token that the checkpoint has: what it saved of the text after that token is of no use any more."""
    task = _killed_after_a_checkpoint(saving_service)
    sent = saving_service.text_on_disk(task)
    position, tokens = saving_service.sql(
        "SELECT position, tokens FROM task_journal WHERE snapshot_id = ? AND position > 20 ORDER BY position LIMIT 1",
        task,
    )[0]
    saving_service.sql(
        "UPDATE task_journal SET tokens = ? WHERE snapshot_id = ? AND position = ?",
        struct.pack("<I", 260) + tokens[4:],
        task,
        position,
    )
    saving_service.start()
    done = saving_service.finished(task)
    assert _restored(saving_service) == [position]
    assert done["output_text"].startswith(sent)
    saving_service.check_log()
