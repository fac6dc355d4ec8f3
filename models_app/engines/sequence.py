"""What the scheduler knows about one sequence."""

import time

from models_app.engines.base import GenerateRequest
from models_app.engines.slots import SlotSampler
from models_app.engines.transcript import Transcript


class SlotSequence:
    """A request on its way through a slot."""

    def __init__(self, key: int, arrival: int, request: GenerateRequest, transcript: Transcript) -> None:
        self.key = key
        self.arrival = arrival
        self.request = request
        self.transcript = transcript
        self.sampler: SlotSampler | None = None
        self.slot = -1
        self.prefilled = 0
        """Prompt tokens in the cache."""

        self.fed = 0
        """Generated tokens in the cache."""

        self.forced = len(transcript.tokens)
        """Generated tokens that come from the journal."""

        self.turn = 0
        """The decode that it last took part in."""

        self.timings: dict[str, float] = {
            "prompt_tokens": len(request.prompt),
            "replayed_tokens": self.forced,
        }
        self._phase_began = time.monotonic()

    @property
    def is_prefilling(self) -> bool:
        """Whether some of the prompt is still to be read."""
        return self.prefilled < len(self.request.prompt)

    @property
    def is_replaying(self) -> bool:
        """Whether the token after the next one to be fed is known. The last one of a journal is fed freely."""
        return self.fed + 1 < self.forced

    def forced_rows(self, slots: int) -> int:
        """The row count of the decode in which the next token was fed, as near as `slots` come to it."""
        return min(max(self.transcript.rows[self.fed + 1], self.slot + 1), slots)

    def end_phase(self, name: str) -> None:
        """Note how long the phase that ends now has taken."""
        now = time.monotonic()
        self.timings[name] = now - self._phase_began
        self._phase_began = now
