"""How long engines stay loaded, how many at once, and in how much memory."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

FOR_EVER = -1.0
"""As `keep_alive`: never unload an engine because it is idle."""


@dataclass(frozen=True, slots=True)
class LoadingRules:
    """What whoever runs the service has decided about all engines together.

    An engine that has generated for nobody for `keep_alive` seconds is unloaded: 0 is at once, `FOR_EVER` never.
    `own_keep_alive` has, by their model's key, those for which another time holds. At most `max_loaded` engines are in
    memory (0: any number), and they may claim at most `memory_bytes` together (0: whatever the machine has).
    """

    keep_alive: float = FOR_EVER
    max_loaded: int = 0
    memory_bytes: int = 0
    own_keep_alive: Mapping[str, float] = field(default_factory=dict)

    def keep_alive_of(self, key: str) -> float:
        """Seconds that the engine of the model `key` stays loaded after its last use."""
        return self.own_keep_alive.get(key, self.keep_alive)

    def to_dict(self) -> dict[str, Any]:
        """The rules as JSON has them."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "LoadingRules":
        """Read what `to_dict` wrote; `ValueError` where it cannot be meant."""
        try:
            rules = cls(**data)
            bad = rules.max_loaded < 0 or rules.memory_bytes < 0
            times = [rules.keep_alive, *rules.own_keep_alive.values()]
            bad = bad or any(time < 0 and time != FOR_EVER for time in times)
        except (AttributeError, TypeError) as error:
            raise ValueError(f"not loading rules: {error}") from error
        if bad:
            raise ValueError("loading rules are not negative; keep_alive may be -1")
        return rules
