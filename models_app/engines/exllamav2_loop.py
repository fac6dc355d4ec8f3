"""Requests over a generator that batches by itself: who is started when, and what is said of each.

The library does prefill, batching and caching. Which token comes next is chosen here from the logits that it computed
(`logit_sampler.LogitSampler`), and texts, stop texts, limits and ends are the same as for every engine
(`transcript.Transcript`). What it does with a journal is not exact: it reads prompt and journalled tokens in one go,
where the first run had decoded them one by one, and that gives other bits. It says so, by `Admitted(exact=False)` and
by a fingerprint that no other process has.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from models_app.engines import failures
from models_app.engines.base import DecodeError, GenerateRequest
from models_app.engines.grammar import Compiler, GrammarError, Vocabulary
from models_app.engines.logit_sampler import LogitSampler
from models_app.engines.messages import Admitted, Finished, Message, Progress, Replayed, Tokens
from models_app.engines.transcript import Transcript

Choose = Callable[[NDArray[np.float32]], tuple[int, bool]]
"""Chooses the next token of a job from the model's raw logits, one for each token of the vocabulary. Returns it, and
whether the job ends with it. May be called in any thread."""


@dataclass(frozen=True, slots=True)
class Prefilled:
    """How far the prefill of a job has come: `done` of `total` tokens."""

    key: int
    done: int
    total: int


class JobRunner(Protocol):
    """What the loop asks of the library. Belongs to one thread."""

    slots: int
    context_length: int
    fingerprint: str

    @property
    def vocabulary(self) -> Vocabulary:
        """The model's tokens."""

    def start(self, key: int, tokens: Sequence[int], most: int, choose: Choose) -> None:
        """Begin to generate after `tokens`: at most so many, each the one that `choose` names, up to the last."""

    def stop(self, key: int) -> None:
        """Forget a job before its end."""

    def run(self) -> list[Prefilled]:
        """Compute one round: a chunk of each prefill, and a token of each job that is past it."""

    def info(self) -> dict[str, Any]:
        """Figures for people."""

    def close(self) -> None:
        """Free the model."""


class _Sequence:
    """A request on its way."""

    def __init__(self, key: int, request: GenerateRequest, vocabulary: Vocabulary, context_length: int) -> None:
        self.key = key
        self.request = request
        self.transcript = Transcript(request, vocabulary, context_length)
        self.sampler: LogitSampler | None = None
        self.slot = -1
        self.journalled = len(self.transcript.tokens)
        self.is_prefilling = True
        self.chosen: Tokens | None = None
        """The token of this round."""

        self.failure: DecodeError | GrammarError | None = None
        self.timings: dict[str, float] = {
            "prompt_tokens": len(request.prompt),
            "replayed_tokens": self.journalled,
        }
        self._vocabulary = vocabulary
        self._phase_began = time.monotonic()

    def choose(self, logits: NDArray[np.float32]) -> tuple[int, bool]:
        """See `Choose`."""
        assert self.sampler is not None
        try:
            token = self.sampler.sample(logits)
        except (DecodeError, GrammarError) as error:
            self.failure = error
            return 0, True  # a token that nobody will be told of
        row = self.slot + 1 if self.transcript.tokens else 0
        text = self.transcript.append(token, row)
        likely = self.sampler.last_logprob
        # An end token is no part of the output.
        likelihoods = [likely] if likely and not self._vocabulary.is_end(token) else []
        self.chosen = Tokens([token], [row], text, likelihoods)
        return token, self.transcript.reason is not None

    def end_phase(self, name: str) -> None:
        now = time.monotonic()
        self.timings[name] = now - self._phase_began
        self._phase_began = now


class DynamicLoop:
    """An `Engine` over a `JobRunner`."""

    def __init__(self, runner: JobRunner) -> None:
        self._runner = runner
        self._grammars = Compiler(runner.vocabulary)
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
        """Queue a request; `RequestError` where it does not fit this model."""
        vocabulary = self._runner.vocabulary
        request.require_fit(vocabulary.size, self.context_length)
        self._waiting.append(_Sequence(key, request, vocabulary, self.context_length))

    def prepare(self, prompt: Sequence[int]) -> None:
        """Do nothing: on a GPU a prompt is read in less time than it takes to announce it."""

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
        self._grammars.close()
        self._runner.close()

    def _admit(self) -> None:
        """Start those who wait, in their order, as long as there are slots."""
        for sequence in list(self._waiting):
            if sequence.transcript.reason is not None:  # it was interrupted after its last token
                self._waiting.remove(sequence)
                self._say(sequence, Admitted(0))
                self._say_replayed(sequence)
                self._finish(sequence, Tokens([], [], ""))
            elif None in self._slots:
                self._waiting.remove(sequence)
                self._start(sequence, self._slots.index(None))

    def _start(self, sequence: _Sequence, slot: int) -> None:
        request, transcript = sequence.request, sequence.transcript
        sequence.slot = slot
        self._slots[slot] = sequence
        sequence.end_phase("queued")
        matcher = None if request.grammar is None else self._grammars.start(request.grammar)
        sequence.sampler = LogitSampler(request, self._runner.vocabulary, matcher, transcript.tokens)
        tokens = [*request.prompt, *transcript.tokens]
        self._runner.start(sequence.key, tokens, transcript.room, sequence.choose)
        self._say(sequence, Admitted(slot, exact=not sequence.journalled))

    def _compute(self) -> None:
        running = {sequence.key: sequence for sequence in self._slots if sequence is not None}
        for prefilled in self._runner.run() if running else ():
            self._say(running[prefilled.key], Progress("prefill", prefilled.done, prefilled.total))
        for sequence in running.values():
            if sequence.failure is not None:
                self._fail(sequence, sequence.failure)
            elif sequence.chosen is not None:
                chosen, sequence.chosen = sequence.chosen, None
                self._pass_on(sequence, chosen)

    def _pass_on(self, sequence: _Sequence, chosen: Tokens) -> None:
        self._tokens_generated += 1
        if sequence.is_prefilling:
            sequence.is_prefilling = False
            sequence.end_phase("prefill")
            if sequence.journalled:
                self._say_replayed(sequence)
        if sequence.transcript.reason is None:
            self._say(sequence, chosen)
        else:
            self._finish(sequence, chosen)

    def _give_up_cancelled(self) -> None:
        with self._lock:
            cancelled, self._cancelled = self._cancelled, set()
        for sequence in [*self._waiting, *filter(None, self._slots)] if cancelled else ():
            if sequence.key in cancelled:
                if sequence.slot < 0:
                    self._waiting.remove(sequence)
                else:
                    self._runner.stop(sequence.key)
                self._finish(sequence, Tokens([], [], sequence.transcript.break_off("cancelled")))

    def _finish(self, sequence: _Sequence, last: Tokens) -> None:
        sequence.end_phase("decode")
        reason = sequence.transcript.reason
        assert reason is not None
        sequence.timings["output_tokens"] = len(sequence.transcript.tokens)
        if sequence.request.reasoning_end:
            sequence.timings["reasoning_tokens"] = sequence.transcript.reasoning_tokens
        self._say(sequence, Finished(reason, last.tokens, last.rows, last.text, sequence.timings, last.logprobs))
        self._leave(sequence)

    def _fail(self, sequence: _Sequence, error: DecodeError | GrammarError) -> None:
        self._say(sequence, failures.of(error))
        self._leave(sequence)

    def _leave(self, sequence: _Sequence) -> None:
        if sequence.slot >= 0:
            self._slots[sequence.slot] = None

    def _say_replayed(self, sequence: _Sequence) -> None:
        self._say(sequence, Replayed(sequence.transcript.resumed_text))

    def _say(self, sequence: _Sequence, message: Message) -> None:
        self._messages.append((sequence.key, message))
