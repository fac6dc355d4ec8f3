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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from models_app.engines import checkpoints, chunks, failures
from models_app.engines.announced import Announced, Beginning
from models_app.engines.base import DecodeError, GenerateRequest, are_tokens
from models_app.engines.grammar import GrammarError
from models_app.engines.logprobs import TokenLogprob
from models_app.engines.messages import Admitted, Finished, Message, Progress, Replayed, Tokens
from models_app.engines.prefixes import Borders, PrefixCache
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

_LONGEST_START = 6.0
"""The same where none of them has more than its first token: who came together goes on together until the end."""


class SlotScheduler:
    """An `Engine` over a model with slots."""

    def __init__(self, model: SlotModel, prefix_bytes: int = 0) -> None:
        self._model = model
        self._prefixes = PrefixCache(model.prefill_chunk, prefix_bytes)
        self._slots: list[SlotSequence | None] = [None] * model.slots
        self._waiting: list[SlotSequence] = []
        self._messages: list[tuple[int, Message]] = []
        self._announced = Announced(model.slots)
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
        return not self._waiting and not self._announced.waiting and not any(self._slots)

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
            "announced_tokens_used": self._announced.used,
        }

    def submit(self, key: int, request: GenerateRequest) -> None:
        """Queue a request; `RequestError` where it does not fit this model."""
        request.require_fit(self._model.vocabulary.size, self.context_length)
        transcript = Transcript(request, self._model.vocabulary, self.context_length)
        self._announced.forget(request.prompt)
        self._waiting.append(SlotSequence(key, self._arrivals, request, transcript))
        self._arrivals += 1

    def prepare(self, prompt: Sequence[int]) -> None:
        """Read a chunk of a prompt that is about to be submitted, once there is nothing else to do."""
        if 0 < len(prompt) < self.context_length and are_tokens(prompt, self._model.vocabulary.size):
            self._announced.waiting.append(prompt)

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
        elif self._announced.waiting:
            self._begin_announced(self._announced.waiting.popleft())

    def _begin_announced(self, prompt: Sequence[int]) -> None:
        """Read on, by one chunk, behind what is kept of a prompt, in an engine without work: in the first slot."""
        self._drop_beginning()
        slot = 0
        reused = self._restore_prefix(slot, self._prefixes.borders(prompt))
        end = chunks.end_of(reused, len(prompt), self._model.prefill_chunk)
        try:
            if self._model.prefill(slot, prompt[reused:end], last=end == len(prompt)):
                self._announced.beginning = Beginning(slot, prompt, reused, end)
        except DecodeError as error:
            _log.warning("prompt not begun", extra={"tokens": len(prompt), "error": str(error)})
            self._model.clear(slot)

    def _drop_beginning(self) -> None:
        if self._announced.beginning is not None:
            self._model.clear(self._announced.beginning.slot)
            self._announced.beginning = None

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
        beginning = self._announced.take(slot, sequence)
        # Whoever else enters computes something else, and the logits of what was begun are gone.
        self._drop_beginning()
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
            self._begin_prompt(sequence, beginning)

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

    def _restore_prefix(self, slot: int, borders: Borders) -> int:
        """Fill an empty slot with the longest beginning that is kept of a prompt; return its length."""
        if found := self._prefixes.find(borders):
            length, state = found
            if self._model.restore(slot, state, length):
                return length
        return 0

    def _begin_prompt(self, sequence: SlotSequence, beginning: Beginning | None) -> None:
        """Go on from what was begun of a prompt, or else from what is kept of it."""
        sequence.borders = self._prefixes.borders(sequence.request.prompt)
        reused = beginning.reused if beginning else self._restore_prefix(sequence.slot, sequence.borders)
        if reused:
            sequence.prefilled = reused
            sequence.timings["reused_tokens"] = reused
            self._prefixes.reused += reused
        sequence.keep_at = self._prefixes.wanted(sequence.borders)
        if beginning:
            self._note_chunk(sequence, beginning.end - beginning.reused)

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
            # Nobody waits, and nobody is owed anything.
            self._decoded_at = self._decode_until = now
        elif now < self._decode_until:
            return None
        self._oldest_prefills = not self._oldest_prefills
        if self._oldest_prefills:
            return min(prefilling, key=lambda sequence: sequence.arrival)
        return min(prefilling, key=lambda sequence: len(sequence.request.prompt) - sequence.prefilled)

    def _prefill(self, sequence: SlotSequence) -> None:
        prompt = sequence.request.prompt
        end = chunks.end_of(sequence.prefilled, len(prompt), self._model.prefill_chunk)
        chunk = prompt[sequence.prefilled : end]
        began = time.monotonic()
        try:
            if not self._compute_prefill(sequence, chunk, last=end == len(prompt)):
                return  # cancelled, which the next step sees to
        except DecodeError as error:
            self._fail(sequence, error)
            return
        now = time.monotonic()
        if len(prompt) > _SHORT_PROMPT * self._model.prefill_chunk or now > self._decoded_at + self._longest_stall():
            self._decode_until = now + (now - began) * _DECODE_SHARE
        self._note_chunk(sequence, len(chunk))

    def _longest_stall(self) -> float:
        is_under_way = any(sequence is not None and sequence.fed for sequence in self._slots)
        return _LONGEST_STALL if is_under_way else _LONGEST_START

    def _note_chunk(self, sequence: SlotSequence, length: int) -> None:
        """Go on after a chunk of `length` tokens, whose logits are there if it was the last one."""
        sequence.prefilled += length
        if sequence.prefilled in sequence.keep_at:
            self._keep_prefix(sequence)
        if sequence.is_prefilling:
            self._say(sequence, Progress("prefill", sequence.prefilled, len(sequence.request.prompt)))
            return
        sequence.end_phase("prefill")
        if not sequence.forced:
            self._sample(sequence, row=length - 1, rows=0)
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
