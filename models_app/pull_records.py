"""Pulls as the database has them: begun by the command line or in the admin, carried out by a process of their own."""

import fcntl
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from django.conf import settings
from django.db import DatabaseError
from django.utils import timezone

from lmsp_site import file_lock
from lmsp_site.audit_log import Actor, ActorKind, AuditEntry
from models_app import errands, hub, pulling
from models_app.digests import OnBytes
from models_app.models import LanguageModel, ModelPull, PullState
from models_app.refusals import CannotRegister

_NOTE_SECONDS = 0.5
_SOURCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9._-]+(:[A-Za-z0-9][A-Za-z0-9._/-]*)?")


def is_source(source: str) -> bool:
    """Tell whether that is a repository of the hub, or a file in one."""
    return _SOURCE.fullmatch(source) is not None and ".." not in source


def start(pull: ModelPull) -> int:
    """Have a child of this process carry out a pull, and return its id; what ends it another start goes on with."""
    arguments = [pull.source, f"--id={pull.name}", f"--record={pull.pk}"]
    if pull.revision:
        arguments.append(f"--revision={pull.revision}")
    return errands.begin("pull_model", *arguments)


def is_carried_out(pull: ModelPull) -> bool:
    """Tell whether a process is at it."""
    try:
        return file_lock.is_held(_lock(pull))
    except FileNotFoundError:
        return False


def carry_out(
    pull: ModelPull,
    aliases: list[str],
    on_license: Callable[[str, str], None],
    on_start: Callable[[int, int], OnBytes],
) -> LanguageModel:
    """Pull a model, and note in its row how far it is.

    Args:
        pull: its row.
        aliases: what requests may name as well.
        on_license: told commit and licence before the first byte.
        on_start: as for ``pulling.pull``.

    Raises:
        CannotRegister: see its message, which the row has as well.
    """
    name, _, wanted = pull.source.partition(":")
    with _held(pull):
        try:
            repository = hub.look(name, pull.revision or None)
            on_license(repository.commit, repository.license)
            _note(pull, state=PullState.RUNNING, license=repository.license, error="")
            shown = _noting(pull, on_start)
            model = pulling.pull(repository, wanted, pull.name, actor=_asked_by(pull), aliases=aliases, on_start=shown)
        except CannotRegister as refusal:
            _note(pull, state=PullState.FAILED, error=str(refusal))
            raise
        _note(pull, state=PullState.COMPLETED, done_bytes=model.size_bytes, total_bytes=model.size_bytes)
        return model


def _asked_by(pull: ModelPull) -> Actor:
    """Return who has begun it, or gone on with it last: the admin has written that down."""
    entry = AuditEntry.objects.filter(subject_kind=str(pull._meta.verbose_name), subject_id=str(pull.pk)).first()
    return Actor(ActorKind(entry.actor_kind), entry.actor, entry.address) if entry else Actor.command_line()


def _noting(pull: ModelPull, on_start: Callable[[int, int], OnBytes]) -> Callable[[int, int], OnBytes]:
    def begin(total: int, come: int) -> OnBytes:
        on_bytes = on_start(total, come)
        done, noted = come, 0.0

        def add(count: int) -> None:
            nonlocal done, noted
            on_bytes(count)
            done += count
            if time.monotonic() - noted > _NOTE_SECONDS:
                noted = time.monotonic()
                _note(pull, done_bytes=done, total_bytes=total)

        _note(pull, done_bytes=come, total_bytes=total)
        return add

    return begin


def _note(pull: ModelPull, **fields: object) -> None:
    # That it cannot be told how far it is does not end it.
    with suppress(DatabaseError):
        ModelPull.objects.filter(pk=pull.pk).update(updated_at=timezone.now(), **fields)


@contextmanager
def _held(pull: ModelPull) -> Iterator[None]:
    with _lock(pull).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CannotRegister(f"{pull.source} is being pulled by another process.") from None
        yield


def _lock(pull: ModelPull) -> Path:
    return Path(settings.LMSP.run_dir) / f"pull-{pull.pk}.lock"
