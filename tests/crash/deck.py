"""Who is killed next: dealt from a shuffled deck, so that each has its turn."""

import random

from tests.crash.victims import Victim

EVERYBODY = frozenset(Victim)

# Of each half of a long run, from its start to this share of it, these alone are killed: what never lives long cannot
# be seen to grow. Both halves go alike, so that the quarters that are compared, their second parts, are of one kind.
_STAGES = (
    (0.5, frozenset({Victim.BUSY_WORKER, Victim.IDLE_WORKER, Victim.HELPER})),
    (0.9, frozenset({Victim.ENGINE, Victim.LOADING_ENGINE, Victim.HELPER})),
    (1.0, EVERYBODY),
)


def stage(share: float) -> frozenset[Victim]:
    """Return who may be killed when this share of a long run is over."""
    of_half = share * 2 % 1
    return next(members for end, members in _STAGES if of_half < end)


class Deck:
    """A deck of victims that is shuffled anew whenever it has been dealt."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._cards: list[Victim] = []

    def deal(self, members: frozenset[Victim] = EVERYBODY) -> Victim:
        """Return the next victim that is one of `members`."""
        self._cards = [victim for victim in self._cards if victim in members]
        if not self._cards:
            self._cards = [victim for victim in Victim if victim in members]
            self._rng.shuffle(self._cards)
        return self._cards.pop()
