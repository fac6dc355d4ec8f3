"""Requests over a generator that batches by itself: who is started when, and what is said of each.

The library does prefill, batching, caching and choosing of tokens; texts, stop texts, limits and ends are this
project's, the same as for every engine (`transcript.Transcript`). What it does with a journal is not exact: it reads
prompt and journalled tokens in one go, where the first run had decoded them one by one, and that gives other bits. It
says so, by `Admitted(exact=False)` and by a fingerprint that no other process has.
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from models_app.engines import exllamav2_requests
from models_app.engines.base import GenerateRequest
from models_app.engines.messages import Admitted, Finished, Message, Progress, Replayed, Tokens
from models_app.engines.sampling import SamplingParams
from models_app.engines.transcript import Transcript, Vocabulary


@dataclass(frozen=True, slots=True)
class JobNews:
    """What has come of a job in one round: tokens, or how far its prefill is, and whether it has ended."""

    key: int
    tokens: list[int] = field(default_factory=list)
    prefilled: tuple[int, int] | None = None
    ended: bool = False


class JobRunner(Protocol):
    """What the loop asks of the library. Belongs to one thread."""

    slots: int
    context_length: int
    fingerprint: str

    @property
    def vocabulary(self) -> Vocabulary:
        """The model's tokens."""

    def start(self, key: int, tokens: Sequence[int], most: int, sampling: SamplingParams, position: int) -> None:
        """Begin to generate at most so many tokens after `tokens`, the first of them at `position` of the output."""

    def look_back(self, key: int, tokens: int) -> None:
        """Have the penalties of a job count so many of its last tokens from now on."""

    def stop(self, key: int) -> None:
        """Forget a job; one that has ended is none."""

    def run(self) -> list[JobNews]:
        """Compute one round: a chunk of each prefill, and a token of each job that is past it."""

    def info(self) -> dict[str, Any]:
        """Figures for people."""

    def close(self) -> None:
        """Free the model."""


class _Sequence:
    """A request on its way."""

    def __init__(self, key: int, request: GenerateRequest, transcript: Transcript) -> None:
        self.key = key
        self.request = request
        self.transcript = transcript
        self.slot = -1
        self.journalled = len(transcript.tokens)
        self.is_prefilling = True
        self.timings: dict[str, float] = {
            "prompt_tokens": len(request.prompt),
            "replayed_tokens": self.journalled,
        }
        self._phase_began = time.monotonic()

    def end_phase(self, name: str) -> None:
        now = time.monotonic()
        self.timings[name] = now - self._phase_began
        self._phase_began = now


class DynamicLoop:
    """An `Engine` over a `JobRunner`."""

    def __init__(self, runner: JobRunner) -> None:
        self._runner = runner
        self._slots: list[_Sequence | None] = [None] * runner.slots
        self._waiting: list[_Sequence] = []
        self._messages: list[tuple[int, Message]] = []
        self._tokens_generated = 0
        self._lock = threading.Lock()
        self._cancelled: set[int] = set()

    @property
    def fingerprint(self) -> str:
        """Another one in every process: nothing is continued exactly."""
        return self._runner.fingerprint

    @property
    def slots(self) -> int:
        """How many sequences run at once."""
        return self._runner.slots

    @property
    def context_length(self) -> int:
        """How many tokens one sequence can hold."""
        return self._runner.context_length

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do."""
        return not self._waiting and not any(self._slots)

    @property
    def is_prefilling(self) -> bool:
        """Whether the next step may be a chunk of a prefill."""
        if self._waiting and None in self._slots:
            return True
        return any(sequence is not None and sequence.is_prefilling for sequence in self._slots)

    def submit(self, key: int, request: GenerateRequest) -> None:
        """Queue a request; `RequestError` where it does not fit this model, or asks for what is not done."""
        vocabulary = self._runner.vocabulary
        exllamav2_requests.check(request, vocabulary.size, self.context_length)
        self._waiting.append(_Sequence(key, request, Transcript(request, vocabulary, self.context_length)))

    def cancel(self, key: int) -> None:
        """Give a request up, from any thread; what is being computed is finished first."""
        with self._lock:
            self._cancelled.add(key)

    def step(self) -> list[tuple[int, Message]]:
        """Do one round; but first, and alone, say who came and who went."""
        self._give_up_cancelled()
        self._admit()
        if not self._messages:
            self._compute()
        messages, self._messages = self._messages, []
        return messages

    def info(self) -> dict[str, Any]:
        """Figures for people."""
        return {
            "fingerprint": self.fingerprint,
            "slots": self.slots,
            "context_length": self.context_length,
            "busy_slots": sum(sequence is not None for sequence in self._slots),
            "waiting": len(self._waiting),
            "tokens_generated": self._tokens_generated,
            **self._runner.info(),
        }

    def close(self) -> None:
        """Free the model."""
        self._runner.close()

    def _admit(self) -> None:
        """Start those who wait, in their order, as long as there are slots."""
        for sequence in list(self._waiting):
            if sequence.transcript.reason is not None:  # it was interrupted after its last token
                self._waiting.remove(sequence)
                self._say(sequence, Admitted(0))
                self._say_replayed(sequence)
                self._finish(sequence, [], [], "")
            elif None in self._slots:
                self._waiting.remove(sequence)
                self._start(sequence, self._slots.index(None))

    def _start(self, sequence: _Sequence, slot: int) -> None:
        request = sequence.request
        sequence.slot = slot
        self._slots[slot] = sequence
        sequence.end_phase("queued")
        most = exllamav2_requests.most_new_tokens(request, self.context_length)
        tokens = exllamav2_requests.input_tokens(request)
        self._runner.start(sequence.key, tokens, most, request.sampling, sequence.journalled)
        self._say(sequence, Admitted(slot, exact=not sequence.journalled))

    def _compute(self) -> None:
        running = {sequence.key: sequence for sequence in self._slots if sequence is not None}
        for sequence in running.values():
            back = exllamav2_requests.penalty_range(sequence.request.sampling, len(sequence.transcript.tokens))
            self._runner.look_back(sequence.key, back)
        for news in self._runner.run() if running else ():
            sequence = running[news.key]
            if sequence.transcript.reason is None:
                self._take(sequence, news)

    def _take(self, sequence: _Sequence, news: JobNews) -> None:
        if news.prefilled is not None:
            self._say(sequence, Progress("prefill", *news.prefilled))
        if news.tokens and sequence.is_prefilling:
            sequence.is_prefilling = False
            sequence.end_phase("prefill")
            if sequence.journalled:
                self._say_replayed(sequence)
        transcript = sequence.transcript
        tokens: list[int] = []
        rows: list[int] = []
        text = ""
        for token in news.tokens:
            if transcript.reason is not None:
                break  # it had chosen on, beyond what the text ends with
            tokens.append(token)
            rows.append(sequence.slot + 1 if transcript.tokens else 0)
            text += transcript.append(token, rows[-1])
        self._tokens_generated += len(tokens)
        if news.ended and transcript.reason is None:
            text += transcript.break_off("stop")
        if transcript.reason is not None:
            if not news.ended:
                self._runner.stop(sequence.key)
            self._finish(sequence, tokens, rows, text)
        elif tokens:
            self._say(sequence, Tokens(tokens, rows, text))

    def _give_up_cancelled(self) -> None:
        with self._lock:
            cancelled, self._cancelled = self._cancelled, set()
        for sequence in [*self._waiting, *filter(None, self._slots)] if cancelled else ():
            if sequence.key in cancelled:
                if sequence.slot < 0:
                    self._waiting.remove(sequence)
                else:
                    self._runner.stop(sequence.key)
                self._finish(sequence, [], [], sequence.transcript.break_off("cancelled"))

    def _finish(self, sequence: _Sequence, tokens: list[int], rows: list[int], text: str) -> None:
        sequence.end_phase("decode")
        reason = sequence.transcript.reason
        assert reason is not None
        sequence.timings["output_tokens"] = len(sequence.transcript.tokens)
        if sequence.request.reasoning_end:
            sequence.timings["reasoning_tokens"] = sequence.transcript.reasoning_tokens
        self._say(sequence, Finished(reason, tokens, rows, text, sequence.timings))
        if sequence.slot >= 0:
            self._slots[sequence.slot] = None

    def _say_replayed(self, sequence: _Sequence) -> None:
        self._say(sequence, Replayed(sequence.transcript.resumed_text))

    def _say(self, sequence: _Sequence, message: Message) -> None:
        self._messages.append((sequence.key, message))
