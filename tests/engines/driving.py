"""An engine in this process, driven step by step, so that a test decides what runs beside what."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from models_app.engines import llamacpp
from models_app.engines.base import Engine, GenerateRequest, ModelSpec, Resume
from models_app.engines.llamacpp import Vocabulary
from models_app.engines.llamacpp_context import SlotContext
from models_app.engines.messages import Admitted, Failed, Finished, Message, Replayed, Tokens
from models_app.engines.sampling import SamplingParams

GREEDY = SamplingParams(temperature=0)
SAMPLED = SamplingParams(temperature=0.9, top_p=0.95, top_k=50, min_p=0.02, frequency_penalty=0.4, seed=2**63 - 1)
HOT = replace(SAMPLED, temperature=1.8, top_p=1, top_k=0, min_p=0)

# Bounded, so that a small model at a high temperature comes to an end, and has every kind of choice to make.
PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 6},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"enum": ["kind", "küçük"]}, "maxItems": 1},
        "home": {"anyOf": [{"type": "null"}, {"const": "東京"}]},
    },
    "required": ["name", "age", "tags", "home"],
    "additionalProperties": False,
}


def chat_prompt(vocabulary: Vocabulary, question: str) -> list[int]:
    """The demo model's chat template around one question."""
    text = f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
    return vocabulary.encode(text, add_special=True, parse_special=True)


@dataclass
class Outcome:
    """What an engine said about one request."""

    messages: list[Message] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    text: str = ""

    def add(self, message: Message) -> None:
        self.messages.append(message)
        if isinstance(message, Tokens | Finished):
            self.tokens += message.tokens
            self.rows += message.rows
            self.text += message.text

    @property
    def ended(self) -> bool:
        return bool(self.messages) and isinstance(self.messages[-1], Finished | Failed)

    @property
    def finished(self) -> Finished:
        last = self.messages[-1]
        assert isinstance(last, Finished), last
        return last

    @property
    def slot(self) -> int:
        return next(message.slot for message in self.messages if isinstance(message, Admitted))

    @property
    def replayed(self) -> Replayed:
        return next(message for message in self.messages if isinstance(message, Replayed))

    def text_after(self, count: int) -> str:
        """What the first `count` tokens had released, in a run that sent every token by itself."""
        sent = [message for message in self.messages if isinstance(message, Tokens | Finished)]
        return "".join(message.text for message in sent[:count])

    def resume(self, count: int) -> Resume:
        """The journal as it stood after `count` tokens."""
        return Resume(self.slot, self.tokens[:count], self.rows[:count])


E = TypeVar("E", bound=Engine)


class Driver(Generic[E]):
    """Submits requests to one engine and gathers what it says."""

    def __init__(self, engine: E) -> None:
        self.engine = engine
        self._keys: Iterator[int] = iter(range(2**31))
        self._outcomes: dict[int, Outcome] = {}

    def submit(self, request: GenerateRequest) -> tuple[int, Outcome]:
        key = next(self._keys)
        self.engine.submit(key, request)
        self._outcomes[key] = Outcome()
        return key, self._outcomes[key]

    def step(self) -> list[Message]:
        said = self.engine.step()
        for key, message in said:
            self._outcomes[key].add(message)
        return [message for _key, message in said]

    def finish(self) -> None:
        """Step until nothing is left to do."""
        while not self.engine.is_idle:
            self.step()

    def run(self, *requests: GenerateRequest, tokens_between: int = 0) -> list[Outcome]:
        """Run requests side by side, each starting when the one before it has some tokens or has ended."""
        outcomes: list[Outcome] = []
        for request in requests:
            while outcomes and not outcomes[-1].ended and len(outcomes[-1].tokens) < tokens_between:
                self.step()
            outcomes.append(self.submit(request)[1])
        self.finish()
        return outcomes

    def run_alone(self, request: GenerateRequest) -> Outcome:
        return self.run(request)[0]

    def resume(self, request: GenerateRequest, resume: Resume) -> Outcome:
        return self.run_alone(replace(request, resume=resume))


def assert_continues(outcome: Outcome, resumed: Outcome, cut: int) -> None:
    """An interrupted run and its resume together say what an undisturbed one says, and nothing twice."""
    assert outcome.tokens[:cut] + resumed.tokens == outcome.tokens
    before = outcome.text_after(cut)
    assert before + resumed.text == outcome.text
    assert resumed.finished.reason == outcome.finished.reason
    if cut:
        assert resumed.replayed.text == before


class CacheReader(SlotContext):
    """The real model, which also takes a digest of a slot's cache when it has reached one of certain lengths."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec, lambda _progress: None)
        self.digests: dict[tuple[int, int], str] = {}
        """By slot and length."""

        self._wanted: frozenset[tuple[int, int]] = frozenset()

    def watch(self, wanted: Iterable[tuple[int, int]]) -> None:
        """Forget all digests, and take them of these slots at these lengths from now on."""
        self.digests, self._wanted = {}, frozenset(wanted)

    def digest(self, slot: int) -> str:
        with self.save(slot) as state:
            return hashlib.sha256(state).hexdigest()

    def decode(self, rows: Sequence[int | None], *, logits: bool) -> None:
        super().decode(rows, logits=logits)
        for slot, token in enumerate(rows):
            at = (slot, self.lengths[slot])
            if token is not None and at in self._wanted:
                self.digests[at] = self.digest(slot)


def company_changes_bits(model: CacheReader, driver: Driver, request: GenerateRequest, others: int) -> bool:
    """Tell whether kernels give a sequence other bits beside others than alone, which depends on the processor too.

    Where they do, a replay that does not know what ran beside it must go wrong.
    """
    digests = []
    for company in (0, others):
        model.watch([(0, len(request.prompt) + 5)])
        driver.run(*[replace(request, sampling=GREEDY, max_tokens=7, checkpoint=None)] * (1 + company))
        assert model.digests
        digests.append(model.digests)
    return digests[0] != digests[1]


QUANTISATIONS = {"F16": 1, "Q8_0": 7, "Q4_K_M": 15}
"""llama.cpp's numbers of file types whose kernels treat rows in other ways than the demo model's."""


def quantise(source: Path, target: Path, name: str) -> None:
    """Make the model of another quantisation: good enough to generate with, and as sensitive as any."""
    lib = llamacpp.library()
    params = lib.llama_model_quantize_default_params()
    params.ftype, params.allow_requantize, params.nthread = QUANTISATIONS[name], True, 1
    assert lib.llama_model_quantize(str(source).encode(), str(target).encode(), params) == 0


def longest_common_prefix(one: Sequence[int], other: Sequence[int]) -> int:
    """How many leading elements are equal."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
