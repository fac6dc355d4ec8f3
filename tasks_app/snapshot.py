"""The snapshot a generation resumes from: its prompt, and a journal of its tokens.

The journal grows by one row per commit, in the transaction of the events made from the same tokens: log and
snapshot never disagree, and a commit costs the same at any length.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import connection

from lmsp_site import rows
from tasks_app.models import JournalEntry, Snapshot, Task

_PAIR = struct.Struct("<IH")
_INSERT = "INSERT INTO task_journal (snapshot_id, position, tokens) VALUES (%s, %s, %s)"
_CLEAR = (
    "DELETE FROM task_journal WHERE snapshot_id IN ({})",
    "UPDATE task_snapshots SET slot = NULL, fingerprint = '' WHERE task_id IN ({})",
)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a generation had come: `rows` counts the rows of the decode that chose each token."""

    prompt: list[int]
    seed: int
    slot: int | None
    fingerprint: str
    tokens: list[int]
    rows: list[int]


def create(task: Task, prompt: Sequence[int], seed: int) -> None:
    """Store what the generation starts from; part of the transaction that accepts the task."""
    rows.insert(Snapshot(task=task, prompt=struct.pack(f"<{len(prompt)}I", *prompt), seed=seed))


def load(task_id: str) -> Progress | None:
    """Return the snapshot of `task_id` with its whole journal; ``None`` where there is none."""
    snapshot = Snapshot.objects.filter(pk=task_id).first()
    if snapshot is None:
        return None
    prompt = bytes(snapshot.prompt)
    pairs = [
        pair
        for entry in JournalEntry.objects.filter(snapshot_id=task_id).order_by("position")
        for pair in _PAIR.iter_unpack(bytes(entry.tokens))
    ]
    return Progress(
        prompt=list(struct.unpack(f"<{len(prompt) // 4}I", prompt)),
        seed=snapshot.seed,
        slot=snapshot.slot,
        fingerprint=snapshot.fingerprint,
        tokens=[token for token, _ in pairs],
        rows=[rows for _, rows in pairs],
    )


def note_run(task_id: str, slot: int, fingerprint: str) -> None:
    """Store where and how this run's tokens are decoded; before, or together with, the first of them."""
    Snapshot.objects.filter(pk=task_id).update(slot=slot, fingerprint=fingerprint)


def append(task_id: str, position: int, tokens: Sequence[int], rows: Sequence[int]) -> None:
    """Journal `tokens`, the first of which is the generation's `position`-th (from 0)."""
    packed = b"".join(map(_PAIR.pack, tokens, rows))
    with connection.cursor() as cursor:
        cursor.execute(_INSERT, (task_id, position, packed))


def clear(task_ids: Sequence[str]) -> None:
    """Forget the journals: the next attempts start anew."""
    if task_ids:
        with connection.cursor() as cursor:
            for statement in _CLEAR:
                cursor.execute(statement.format(", ".join(["%s"] * len(task_ids))), task_ids)
