"""Models that are being added in the admin: begun on a page, carried out by a child, and how far each is.

Each has a file in ``run/``, which tells of it for a day, and a lock, which lives as long as the child.
"""

import fcntl
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path

from django.conf import settings

from lmsp_site import file_lock
from lmsp_site.audit_log import Actor, ActorKind
from models_app import adopting, errands, listing
from models_app.digests import OnBytes
from models_app.models import LanguageModel
from models_app.refusals import CannotRegister

_NOTE_SECONDS = 0.5
_TOLD_SECONDS = 24 * 3600
_PREFIX = "adding-"


class AdditionState(StrEnum):
    """How far it is."""

    RUNNING = "running"
    INTERRUPTED = "interrupted"
    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(slots=True)
class Addition:
    """A model that somebody has asked for in the admin.

    Attributes:
        name: its path inside ``models/``.
        actor: the person's name, and `address` where the person was.
        error: why it was refused.
        same_content_as: ids of other models with the same content.
        began_at: Unix seconds.
    """

    name: str
    model_id: str
    actor: str
    address: str
    state: str = AdditionState.RUNNING
    done_bytes: int = 0
    total_bytes: int = 0
    error: str = ""
    same_content_as: list[str] = field(default_factory=list)
    began_at: float = field(default_factory=time.time)

    @property
    def key(self) -> str:
        """What its files are called by."""
        return hashlib.sha256(self.name.encode()).hexdigest()[:16]

    @property
    def part(self) -> int:
        """Of 100, how much has been read."""
        if self.state == AdditionState.COMPLETED:
            return 100
        return min(100, 100 * self.done_bytes // self.total_bytes) if self.total_bytes else 0


def start(name: str, model_id: str, actor: Actor) -> int:
    """Have a child of this process register what is called `name` inside ``models/``, and return its id.

    Raises:
        CannotRegister: nothing of that name lies there, the id cannot be or is taken, or somebody is at it.
    """
    adopting.check(name, model_id)
    addition = Addition(name, model_id, actor.name, actor.address)
    with _place(addition, "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CannotRegister(f"{name} is being added already.") from None
        _store(addition)
        path = Path(settings.LMSP.models_dir) / name
        # The child holds the lock from here on: it ends with it, whatever ends it.
        return errands.begin("add_model", str(path), f"--id={model_id}", "--begun", held=(lock.fileno(),))


def listed() -> list[Addition]:
    """Return what was begun within a day, the latest first, and forget what is older."""
    found = []
    for path in Path(settings.LMSP.run_dir).glob(f"{_PREFIX}*.json"):
        addition = _load(path)
        if addition is None:
            continue
        if addition.state == AdditionState.RUNNING and not _is_carried_out(addition):
            # It may have ended since its file was read.
            addition = _load(path) or addition
            if addition.state == AdditionState.RUNNING:
                addition.state = AdditionState.INTERRUPTED
        if addition.state != AdditionState.RUNNING and time.time() - addition.began_at > _TOLD_SECONDS:
            path.unlink(missing_ok=True)
            continue
        found.append(addition)
    return sorted(found, key=lambda addition: -addition.began_at)


def carry_out(name: str, aliases: Sequence[str], on_start: Callable[[int], OnBytes]) -> LanguageModel:
    """Register the model that ``start`` has been asked for, in the name of whoever has asked, and note how far it is.

    Raises:
        CannotRegister: see its message, which is told on the page as well.
    """
    addition = _load(_place(Addition(name, "", "", ""), "json"))
    if addition is None:
        raise CannotRegister(f"Nobody has begun to add {name} in the admin.")
    actor = Actor(ActorKind.ADMIN, addition.actor, addition.address)
    try:
        model = adopting.register(
            name, addition.model_id, actor=actor, aliases=aliases, on_start=_noting(addition, on_start)
        )
    except CannotRegister as refusal:
        addition.state, addition.error = AdditionState.FAILED, str(refusal)
        raise
    except Exception as error:
        addition.state, addition.error = AdditionState.FAILED, f"It has ended by an error: {type(error).__name__}."
        raise
    else:
        addition.state = AdditionState.COMPLETED
        addition.same_content_as = listing.describe(model)["same_content_as"]
        return model
    finally:
        _store(addition)


def _noting(addition: Addition, on_start: Callable[[int], OnBytes]) -> Callable[[int], OnBytes]:
    def begin(total: int) -> OnBytes:
        on_bytes, noted = on_start(total), time.monotonic()

        def add(count: int) -> None:
            nonlocal noted
            on_bytes(count)
            addition.done_bytes += count
            if time.monotonic() - noted > _NOTE_SECONDS:
                noted = time.monotonic()
                _store(addition)

        addition.total_bytes = total
        _store(addition)
        return add

    return begin


def _is_carried_out(addition: Addition) -> bool:
    try:
        return file_lock.is_held(_place(addition, "lock"))
    except FileNotFoundError:
        return False


def _place(addition: Addition, kind: str) -> Path:
    return Path(settings.LMSP.run_dir) / f"{_PREFIX}{addition.key}.{kind}"


def _load(path: Path) -> Addition | None:
    try:
        return Addition(**json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def _store(addition: Addition) -> None:
    place, draft = _place(addition, "json"), _place(addition, "draft")
    # That it cannot be told how far it is does not end it.
    with suppress(OSError):
        draft.write_text(json.dumps(asdict(addition)))
        draft.replace(place)
