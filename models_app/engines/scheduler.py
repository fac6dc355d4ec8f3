"""The decode loop: which sequence is prefilled, replayed or decoded next, in which slot, with how many rows.

Continuous batching for an engine that offers slots, under rules that make every generation repeatable from its
journal. A sequence keeps one slot, and its slot is its row in every decode. A decode has as many rows as the
highest slot that takes part in it, plus one; slots below that do not take part are holes. Which bits come out
depends on that number, so it is kept with each token (see `base.Resume`), and a resume feeds each journalled token
in a decode of that many rows again. A prompt is prefilled in chunks, alone, between decodes. The cache of a long
sequence is saved now and then, and a resume that finds it replays only what came later.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from models_app.engines import checkpoints, failures
from models_app.engines.base import DecodeError, GenerateRequest, are_tokens
from models_app.engines.grammar import GrammarError
from models_app.engines.logprobs import TokenLogprob
from models_app.engines.messages import Admitted, Finished, Message, Progress, Replayed, Tokens
from models_app.engines.prefixes import PrefixCache
from models_app.engines.sequence import SlotSequence
from models_app.engines.slots import SlotModel
from models_app.engines.transcript import Transcript

_log = logging.getLogger(__name__)

_DECODE_SHARE = 1 / 3
"""Seconds of decoding between two chunks for each second that a chunk took, so that neither waits for the other."""

_SHORT_PROMPT = 4
"""Chunks of a prompt that is read at a stretch: of requests that come together all decode together then."""

_LONGEST_STALL = 0.25
"""Seconds after which those who generate go on all the same."""


class SlotScheduler:
    """An `Engine` over a model with slots."""

    def __init__(self, model: SlotModel, prefix_bytes: int = 0) -> None:
        self._model = model
        self._prefixes = PrefixCache(model.prefill_chunk, prefix_bytes)
        self._slots: list[SlotSequence | None] = [None] * model.slots
        self._waiting: list[SlotSequence] = []
        self._messages: list[tuple[int, Message]] = []
        self._expected: deque[Sequence[int]] = deque(maxlen=model.slots)
        self._arrivals = 0
        self._turn = 0
        self._tokens_generated = 0
        self._decode_until = 0.0
        self._decoded_at = 0.0
        self._oldest_prefills = False
        self._lock = threading.Lock()
        self._cancelled: set[int] = set()
        self._prefilling: int | None = None
        self._checkpoints = checkpoints.Writer()

    @property
    def fingerprint(self) -> str:
        """Equal where equal journals continue to equal tokens."""
        return self._model.fingerprint

    @property
    def slots(self) -> int:
        """How many sequences run at once."""
        return self._model.slots

    @property
    def context_length(self) -> int:
        """How many tokens one sequence can hold."""
        return self._model.context_length

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do."""
        return not self._waiting and not self._expected and not any(self._slots)

    @property
    def is_prefilling(self) -> bool:
        """Whether the next step may be a chunk of a prefill."""
        if self._waiting and None in self._slots:
            return True
        return any(sequence is not None and sequence.is_prefilling for sequence in self._slots)

    def info(self) -> dict[str, Any]:
        """Figures for people."""
        return {
            "fingerprint": self.fingerprint,
            "slots": self.slots,
            "context_length": self.context_length,
            "threads": self._model.threads,
            "busy_slots": sum(sequence is not None for sequence in self._slots),
            "waiting": len(self._waiting),
            "tokens_generated": self._tokens_generated,
            "prefix_tokens_reused": self._prefixes.reused,
            "prefix_bytes": self._prefixes.size,
        }

    def submit(self, key: int, request: GenerateRequest) -> None:
        """Queue a request; `RequestError` where it does not fit this model."""
        request.require_fit(self._model.vocabulary.size, self.context_length)
        transcript = Transcript(request, self._model.vocabulary, self.context_length)
        self._waiting.append(SlotSequence(key, self._arrivals, request, transcript))
        self._arrivals += 1

    def prepare(self, prompt: Sequence[int]) -> None:
        """Read the first chunk of a prompt that is about to be submitted, once there is nothing else to do."""
        if len(prompt) < self.context_length and are_tokens(prompt, self._model.vocabulary.size):
            self._expected.append(prompt)

    def cancel(self, key: int) -> None:
        """Give a request up, from any thread; a prefill is broken off, a decode of many finishes."""
        with self._lock:
            self._cancelled.add(key)
            if key == self._prefilling:
                self._model.abort()

    def step(self) -> list[tuple[int, Message]]:
        """Do one prefill chunk or one decode; but first, and alone, say who came and who went."""
        self._give_up_cancelled()
        self._admit()
        if not self._messages:
            self._compute()
        messages, self._messages = self._messages, []
        return messages

    def close(self) -> None:
        """Free the model."""
        for sequence in filter(None, self._slots):
            self._leave(sequence)
        self._model.close()

    def _compute(self) -> None:
        prefilling = self._next_prefill()
        if prefilling is not None:
            self._prefill(prefilling)
        elif any(self._slots):
            self._decode()
        elif self._expected:
            self._prefill_expected(self._expected.popleft())

    def _prefill_expected(self, prompt: Sequence[int]) -> None:
        """Keep the first chunk of a prompt as its beginning, in an engine without work, unless it has one already."""
        borders = self._prefixes.borders(prompt)
        if not borders or self._prefixes.find(borders):
            return
        slot = 0
        try:
            if self._model.prefill(slot, prompt[: self._model.prefill_chunk], last=False):
                self._prefixes.keep(borders[0], self._model.save(slot))
        except (DecodeError, OSError) as error:
            _log.warning("prompt not prepared", extra={"tokens": len(prompt), "error": str(error)})
        self._model.clear(slot)

    # Entering and leaving a slot.

    def _admit(self) -> None:
        """Give slots to those who wait, first come first served.

        A resume needs the slot it had. Until that is free it waits, and nobody else is given it.
        """
        kept = {wanted for sequence in self._waiting if (wanted := self._required_slot(sequence)) is not None}
        for sequence in list(self._waiting):
            if sequence.transcript.reason is not None:
                self._waiting.remove(sequence)
                self._finish_resumed(sequence)
                continue
            slot = self._required_slot(sequence)
            if slot is None:
                slot = next((free for free in self._free_slots() if free not in kept), None)
            elif self._slots[slot] is not None:
                slot = None
            if slot is not None:
                self._waiting.remove(sequence)
                self._enter(sequence, slot)

    def _required_slot(self, sequence: SlotSequence) -> int | None:
        resume = sequence.request.resume
        return resume.slot if resume is not None and resume.fits(self.slots) else None

    def _free_slots(self) -> list[int]:
        return [slot for slot, sequence in enumerate(self._slots) if sequence is None]

    def _enter(self, sequence: SlotSequence, slot: int) -> None:
        sequence.slot = slot
        sequence.sampler = self._model.sampler(sequence.request)
        for token in sequence.transcript.tokens:
            sequence.sampler.accept(token)
        self._slots[slot] = sequence
        sequence.end_phase("queued")
        exact = sequence.request.resume is None or self._required_slot(sequence) is not None
        self._say(sequence, Admitted(slot, exact))
        self._restore(sequence)
        if sequence.is_prefilling:
            self._reuse_prefix(sequence)

    def _restore(self, sequence: SlotSequence) -> None:
        """Take from the request's checkpoint what the journal says as well."""
        checkpoint = sequence.request.checkpoint
        if checkpoint is None or not sequence.forced:
            return
        found = checkpoints.read(Path(checkpoint.path))
        if found is None:
            return
        origin, state = found
        # The last token of the journal is fed freely, whoever runs beside it now.
        fed = origin.common(sequence.origin(self.fingerprint, sequence.forced - 1))
        prompt = len(sequence.request.prompt)
        if fed < 0 or not self._model.restore(sequence.slot, state, prompt + fed):
            return
        sequence.prefilled, sequence.fed, sequence.restored = prompt, fed, fed
        sequence.saved_at = sequence.length
        sequence.end_phase("prefill")
        if not sequence.is_replaying:
            self._end_replay(sequence)

    def _reuse_prefix(self, sequence: SlotSequence) -> None:
        """Begin with what is kept of the prompt."""
        sequence.borders = self._prefixes.borders(sequence.request.prompt)
        if found := self._prefixes.find(sequence.borders):
            length, state = found
            if self._model.restore(sequence.slot, state, length):
                sequence.prefilled = length
                sequence.timings["reused_tokens"] = length
                self._prefixes.reused += length
        sequence.keep_at = self._prefixes.wanted(sequence.borders)

    def _keep_prefix(self, sequence: SlotSequence) -> None:
        try:
            state = self._model.save(sequence.slot)
        except (DecodeError, OSError) as error:
            _log.warning("prefix not kept", extra={"tokens": sequence.prefilled, "error": str(error)})
            return
        self._prefixes.keep(sequence.borders[sequence.prefilled // self._model.prefill_chunk - 1], state)

    def _finish_resumed(self, sequence: SlotSequence) -> None:
        """End a request whose journal was complete: it was interrupted after its last token."""
        assert sequence.request.resume is not None
        self._say(sequence, Admitted(sequence.request.resume.slot))
        self._say_replayed(sequence)
        self._finish(sequence, [], [], "")

    def _give_up_cancelled(self) -> None:
        with self._lock:
            cancelled, self._cancelled = self._cancelled, set()
        if not cancelled:
            return
        for sequence in [*self._waiting, *filter(None, self._slots)]:
            if sequence.key in cancelled:
                if sequence.slot < 0:
                    self._waiting.remove(sequence)
                self._finish(sequence, [], [], sequence.transcript.break_off("cancelled"))

    def _finish(
        self,
        sequence: SlotSequence,
        tokens: list[int],
        rows: list[int],
        text: str,
        likelihoods: list[TokenLogprob] | None = None,
    ) -> None:
        sequence.end_phase("decode")
        transcript = sequence.transcript
        assert transcript.reason is not None
        sequence.timings["output_tokens"] = len(transcript.tokens)
        if sequence.request.reasoning_end:
            sequence.timings["reasoning_tokens"] = transcript.reasoning_tokens
        self._say(sequence, Finished(transcript.reason, tokens, rows, text, sequence.timings, likelihoods or []))
        self._leave(sequence)

    def _fail(self, sequence: SlotSequence, error: DecodeError | GrammarError) -> None:
        self._say(sequence, failures.of(error))
        self._leave(sequence)

    def _leave(self, sequence: SlotSequence) -> None:
        if sequence.sampler is not None:
            sequence.sampler.close()
            self._model.clear(sequence.slot)
            self._slots[sequence.slot] = None

    # Prefill.

    def _next_prefill(self) -> SlotSequence | None:
        """The sequence whose prompt is to be read on now, if decoding does not come first.

        Turns between the one that came first, so that none waits for ever, and the one that has the least left, so
        that a short prompt need not wait for a long one.
        """
        prefilling = [sequence for sequence in self._slots if sequence is not None and sequence.is_prefilling]
        if not prefilling:
            return None
        is_decoding = sum(sequence is not None for sequence in self._slots) > len(prefilling)
        now = time.monotonic()
        if not is_decoding:
            self._decoded_at = now  # nobody waits
        elif now < self._decode_until:
            return None
        self._oldest_prefills = not self._oldest_prefills
        if self._oldest_prefills:
            return min(prefilling, key=lambda sequence: sequence.arrival)
        return min(prefilling, key=lambda sequence: len(sequence.request.prompt) - sequence.prefilled)

    def _prefill(self, sequence: SlotSequence) -> None:
        prompt = sequence.request.prompt
        chunk = prompt[sequence.prefilled : sequence.prefilled + self._model.prefill_chunk]
        last = sequence.prefilled + len(chunk) == len(prompt)
        began = time.monotonic()
        try:
            if not self._compute_prefill(sequence, chunk, last=last):
                return  # cancelled, which the next step sees to
        except DecodeError as error:
            self._fail(sequence, error)
            return
        now = time.monotonic()
        if len(prompt) > _SHORT_PROMPT * self._model.prefill_chunk or now > self._decoded_at + _LONGEST_STALL:
            self._decode_until = now + (now - began) * _DECODE_SHARE
        sequence.prefilled += len(chunk)
        if sequence.prefilled in sequence.keep_at:
            self._keep_prefix(sequence)
        if not last:
            self._say(sequence, Progress("prefill", sequence.prefilled, len(prompt)))
            return
        sequence.end_phase("prefill")
        if not sequence.forced:
            self._sample(sequence, row=len(chunk) - 1, rows=0)
        elif not sequence.is_replaying:
            self._end_replay(sequence)

    def _compute_prefill(self, sequence: SlotSequence, chunk: Sequence[int], *, last: bool) -> bool:
        """Prefill so that `cancel` can break it off, which must hit no other computation."""
        with self._lock:
            if sequence.key in self._cancelled:
                return False
            self._prefilling = sequence.key
        try:
            return self._model.prefill(sequence.slot, chunk, last=last)
        finally:
            with self._lock:
                self._prefilling = None
                self._model.rearm()

    # Decode and replay.

    def _decode(self) -> None:
        """Feed one token of each sequence that can take part in a decode of the same row count."""
        ready = [sequence for sequence in self._slots if sequence is not None and not sequence.is_prefilling]
        # Whoever has waited longest decides the row count, so a replay and those who generate take turns.
        rows = self._row_count(min(ready, key=lambda sequence: sequence.turn), ready)
        aboard = [s for s in ready if s.slot < rows and (not s.is_replaying or s.forced_rows(self.slots) == rows)]
        feed: list[int | None] = [None] * rows
        for sequence in aboard:
            feed[sequence.slot] = sequence.transcript.tokens[sequence.fed]
        try:
            self._model.decode(feed, logits=not all(sequence.is_replaying for sequence in aboard))
        except DecodeError as error:
            for sequence in aboard:
                self._fail(sequence, error)
            return
        self._turn += 1
        self._decoded_at = time.monotonic()
        for sequence in aboard:
            sequence.turn = self._turn
            was_replaying = sequence.is_replaying
            sequence.fed += 1
            if not was_replaying:
                self._sample(sequence, row=sequence.slot, rows=rows)
            elif sequence.is_replaying:
                self._say(sequence, Progress("replay", sequence.fed, sequence.forced))
            else:
                self._end_replay(sequence)
            self._save_if_due(sequence)

    def _save_if_due(self, sequence: SlotSequence) -> None:
        """Save the cache for a resume; while another one is being written, the next decode asks again."""
        checkpoint = sequence.request.checkpoint
        if (
            checkpoint is None
            or not sequence.wants_checkpoint
            or self._checkpoints.is_busy
            or sequence.transcript.reason is not None
        ):
            return
        sequence.saved_at = sequence.length
        try:
            state = self._model.save(sequence.slot)
        except (DecodeError, OSError) as error:
            _log.warning("cache not saved", extra={"path": checkpoint.path, "error": str(error)})
            return
        origin = sequence.origin(self.fingerprint, sequence.fed)
        self._checkpoints.write(Path(checkpoint.path), checkpoint.keep_free, origin, state)

    def _row_count(self, leader: SlotSequence, ready: list[SlotSequence]) -> int:
        if leader.is_replaying:
            return leader.forced_rows(self.slots)
        return max(sequence.slot for sequence in ready if not sequence.is_replaying) + 1

    def _sample(self, sequence: SlotSequence, *, row: int, rows: int) -> None:
        assert sequence.sampler is not None
        transcript = sequence.transcript
        try:
            token = sequence.sampler.sample(row, len(transcript.tokens))
        except GrammarError as error:
            self._fail(sequence, error)
            return
        text = transcript.append(token, rows)
        self._tokens_generated += 1
        likely = sequence.sampler.last_logprob
        # An end token is no part of the output.
        likelihoods = [likely] if likely and not self._model.vocabulary.is_end(token) else []
        if transcript.reason is None:
            self._say(sequence, Tokens([token], [rows], text, likelihoods))
        else:
            self._finish(sequence, [token], [rows], text, likelihoods)

    def _end_replay(self, sequence: SlotSequence) -> None:
        sequence.end_phase("replay")
        self._say_replayed(sequence)

    def _say_replayed(self, sequence: SlotSequence) -> None:
        self._say(sequence, Replayed(sequence.transcript.resumed_text, sequence.restored))

    def _say(self, sequence: SlotSequence, message: Message) -> None:
        self._messages.append((sequence.key, message))
