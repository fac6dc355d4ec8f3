"""What the scheduler knows about one sequence."""

import time

from models_app.engines.base import GenerateRequest
from models_app.engines.checkpoints import Origin
from models_app.engines.prefixes import Borders
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

        self.borders: Borders = []
        """Of the prompt, where its beginnings may be kept."""

        self.keep_at: set[int] = set()
        """Lengths of the prompt at which its cache is to be kept."""

        self.fed = 0
        """Generated tokens in the cache."""

        self.forced = len(transcript.tokens)
        """Generated tokens that come from the journal."""

        self.restored = 0
        """Generated tokens that came into the cache from a checkpoint."""

        self.saved_at = len(request.prompt)
        """Tokens in the cache when it was last saved, or when there was nothing to save yet."""

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

    @property
    def length(self) -> int:
        """Tokens in the cache."""
        return self.prefilled + self.fed

    @property
    def wants_checkpoint(self) -> bool:
        """Whether it has grown so much since its cache was saved that it should be saved again."""
        checkpoint = self.request.checkpoint
        return checkpoint is not None and self.length >= self.saved_at + max(checkpoint.every, self.saved_at // 4)

    def origin(self, fingerprint: str, fed: int) -> Origin:
        """What makes this sequence's cache when the first `fed` of its tokens are in it."""
        transcript = self.transcript
        return Origin(fingerprint, self.request.prompt, transcript.tokens[:fed], transcript.rows[1 : fed + 1])

    def forced_rows(self, slots: int) -> int:
        """The row count of the decode in which the next token was fed, as near as `slots` come to it."""
        return min(max(self.transcript.rows[self.fed + 1], self.slot + 1), slots)

    def end_phase(self, name: str) -> None:
        """Note how long the phase that ends now has taken."""
        now = time.monotonic()
        self.timings[name] = now - self._phase_began
        self._phase_began = now
