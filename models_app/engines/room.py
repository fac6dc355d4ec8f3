"""Whether there is room for one more engine, and which one makes room.

Pure: what the engines and the machine are like comes in, what to do comes out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from models_app.engines.loading_rules import LoadingRules

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Occupant:
    """An engine that is in memory.

    `needed` is what it was expected to take when it was loaded, and `taken` what is its alone by now, in bytes.
    `idle_seconds` is `None` while it may not be unloaded: it loads, generates, or was loaded for somebody who has not
    come yet. One that is `ending` was asked to go.
    """

    key: str
    needed: int
    taken: int
    idle_seconds: float | None
    ending: bool = False

    @property
    def claim(self) -> int:
        """What there will be more when it has gone."""
        return max(self.needed, self.taken)

    @property
    def outstanding(self) -> int:
        """What it may still take: mapped files count as available memory, and a cache fills as it is used."""
        return max(0, self.needed - self.taken)


@dataclass(frozen=True, slots=True)
class Start:
    """There is room."""


@dataclass(frozen=True, slots=True)
class Unload:
    """There will be room when this one has gone."""

    key: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing can be done now, for this reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """There can be no room, however long one waits."""

    code: str
    message: str


Decision = Start | Unload | Wait | Refuse


def decide(needed: int, occupants: Sequence[Occupant], rules: LoadingRules, machine_bytes: int) -> Decision:
    """Decide about a newcomer that needs so many bytes; `machine_bytes` is what the machine has available now."""
    available = _available(occupants, rules, machine_bytes)
    if needed > available + sum(occupant.claim for occupant in occupants):
        return _refusal(needed, available + sum(occupant.claim for occupant in occupants))
    crowded = bool(rules.max_loaded) and len(occupants) >= rules.max_loaded
    if not crowded and needed <= available:
        return Start()
    if any(occupant.ending for occupant in occupants):
        return Wait("An engine is being unloaded to make room.")
    idle = [occupant for occupant in occupants if occupant.idle_seconds is not None]
    if not idle or (needed > available + sum(occupant.claim for occupant in idle)):
        if crowded:
            return Wait(f"{rules.max_loaded} models may be loaded at once, and all of them are in use.")
        return Wait(
            f"{_mb(needed)} MB are needed and {_mb(max(0, available))} MB available until another model is idle."
        )
    return Unload(max(idle, key=lambda occupant: occupant.idle_seconds or 0.0).key)


def _available(occupants: Sequence[Occupant], rules: LoadingRules, machine_bytes: int) -> int:
    available = machine_bytes - sum(occupant.outstanding for occupant in occupants)
    if rules.memory_bytes:
        available = min(available, rules.memory_bytes - sum(occupant.claim for occupant in occupants))
    return available


def _refusal(needed: int, available: int) -> Refuse:
    return Refuse(
        "insufficient_memory",
        f"The model needs about {_mb(needed)} MB of memory, and {_mb(max(0, available))} MB are available to engines. "
        "A shorter context or fewer tasks at once need less.",
    )


def _mb(size: int) -> int:
    return -(-size // _MIB)
