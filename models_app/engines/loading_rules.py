"""How long engines stay loaded, how many at once, and in how much memory."""

from dataclasses import asdict, dataclass
from typing import Any

FOR_EVER = -1.0
"""As `keep_alive`: never unload an engine because it is idle."""


@dataclass(frozen=True, slots=True)
class LoadingRules:
    """What whoever runs the service has decided about all engines together.

    An engine that has generated for nobody for `keep_alive` seconds is unloaded: 0 is at once, `FOR_EVER` never. At
    most `max_loaded` engines are in memory (0: any number), and they may claim at most `memory_bytes` together (0:
    whatever the machine has).
    """

    keep_alive: float = FOR_EVER
    max_loaded: int = 0
    memory_bytes: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The rules as JSON has them."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "LoadingRules":
        """Read what `to_dict` wrote; `ValueError` where it cannot be meant."""
        try:
            rules = cls(**data)
            bad = rules.max_loaded < 0 or rules.memory_bytes < 0
        except TypeError as error:
            raise ValueError(f"not loading rules: {error}") from error
        if bad or (rules.keep_alive < 0 and rules.keep_alive != FOR_EVER):
            raise ValueError("loading rules are not negative; keep_alive may be -1")
        return rules
