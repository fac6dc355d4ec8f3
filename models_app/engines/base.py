"""What every engine does, and the values that cross its border.

An engine is asked for work with `submit`, does one short piece of it in each `step`, and gives up what is
cancelled. How it batches, caches and samples is its own business: `scheduler.SlotScheduler` does it over
llama.cpp's primitives, and an engine that brings its own scheduler sits directly behind the same protocol.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from models_app.engines import logprobs
from models_app.engines.messages import Message
from models_app.engines.sampling import SamplingParams


class RequestError(ValueError):
    """A request that this engine can never fulfil."""

    def __init__(self, message: str, code: str = "invalid_request") -> None:
        super().__init__(message)
        self.code = code


class LoadError(RuntimeError):
    """A model that cannot be loaded."""

    def __init__(self, message: str, code: str = "model_load_failed") -> None:
        super().__init__(message)
        self.code = code


class DecodeError(RuntimeError):
    """The engine could not compute. The sequences concerned are lost, the engine itself may go on."""


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model and how to run it. Requests for the same `key` share one loaded engine.

    `digest` is the content digest of the file at `path`; it is trusted, not computed. `context_length` counts
    tokens for each of the `slots` sequences that run at once. `threads` 0 lets the engine choose. Tokens that
    follow a message within `flush_interval` seconds are sent together. Up to `prefix_bytes` of memory keep the caches
    of what prompts begin with.
    """

    key: str
    path: str
    digest: str
    engine: str = "llamacpp"
    context_length: int = 4096
    slots: int = 4
    threads: int = 0
    flush_interval: float = 0.02
    prefix_bytes: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The specification as JSON has it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "ModelSpec":
        """Read what `to_dict` wrote; `LoadError` where it cannot be meant."""
        try:
            spec = cls(**data)
        except TypeError as error:
            raise LoadError(f"not a model specification: {error}", "invalid_spec") from error
        if min(spec.context_length, spec.slots) < 1 or min(spec.threads, spec.prefix_bytes) < 0:
            raise LoadError(
                "context_length and slots must be positive, threads and prefix_bytes 0 or greater", "invalid_spec"
            )
        if not Path(spec.path).is_absolute():
            raise LoadError("the path of a model must be absolute: it is read by another process", "invalid_spec")
        return spec


@dataclass(frozen=True, slots=True)
class Resume:
    """Where an interrupted generation had got to: its slot, its tokens, and the row count of each token.

    `rows[i]` is the number of rows of the decode whose logits chose `tokens[i]`, that is, the decode in which
    `tokens[i - 1]` was fed; it is 0 for the first token, which prefill chose. So the journal is complete at every
    moment: a last token that was chosen but perhaps never fed carries no obligation about how it is fed.
    """

    slot: int
    tokens: Sequence[int] = ()
    rows: Sequence[int] = ()

    def __post_init__(self) -> None:
        """Refuse a journal that could not have been written."""
        if self.slot < 0 or len(self.tokens) != len(self.rows):
            raise RequestError("a resume needs a slot and as many rows as tokens")

    def fits(self, slots: int) -> bool:
        """Whether an engine with that many slots can decode every token in the company it first had."""
        return self.slot < slots and all(self.slot < row <= slots for row in self.rows[1:])


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where to keep the cache of a long generation, and where a resume finds it.

    Written whenever the sequence has grown by `every` tokens and by a quarter, so that the price of writing does not
    grow with the length; not while less than `keep_free` bytes of disk would stay free.
    """

    path: str
    keep_free: int = 0
    every: int = 256

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        if not Path(self.path).is_absolute() or self.every < 1 or self.keep_free < 0:
            raise RequestError("a checkpoint needs an absolute path and positive numbers")


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """One sequence to generate: a prompt of token ids, and when to stop.

    Generation ends at an end token, when one of the `stop` texts appears (it is not part of the output), after
    `max_tokens` tokens, or when the context is full. Raises `RequestError` where it makes no sense.

    Every output follows `grammar`, a string that `engines.grammar` has made: at each position only tokens that it
    allows there can be chosen, and end tokens only where it may end. A stop text or `max_tokens` may still cut it.

    `top_logprobs` asks how likely each token was, and which so many tokens were the likeliest; see `engines.logprobs`.

    `marks` are names of tokens that have no text of their own and show in the text of this request all the same.
    Tokens up to the first one that completes the text `reasoning_end` are counted as `reasoning_tokens`.
    """

    prompt: Sequence[int]
    sampling: SamplingParams = field(default_factory=SamplingParams)
    max_tokens: int | None = None
    stop: Sequence[str] = ()
    resume: Resume | None = None
    checkpoint: Checkpoint | None = None
    grammar: str | None = None
    top_logprobs: int | None = None
    marks: Sequence[str] = ()
    reasoning_end: str = ""

    def __post_init__(self) -> None:
        """Refuse what no engine can run."""
        if not self.prompt:
            raise RequestError("the prompt is empty")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise RequestError("max_tokens must be positive")
        if not all(self.stop):
            raise RequestError("a stop text must not be empty")
        if self.top_logprobs is not None and not 0 <= self.top_logprobs <= logprobs.MOST:
            raise RequestError(f"top_logprobs must lie between 0 and {logprobs.MOST}")

    def require_fit(self, vocabulary_size: int, context_length: int) -> None:
        """Raise `RequestError` unless a model with so many tokens, and a context of so many, can fulfil it."""
        if len(self.prompt) >= context_length:
            raise RequestError(
                f"the prompt has {len(self.prompt)} tokens; with one of output only"
                f" {context_length - 1} fit into the context",
                "context_length_exceeded",
            )
        resumed = self.resume.tokens if self.resume else ()
        if not (are_tokens(self.prompt, vocabulary_size) and are_tokens(resumed, vocabulary_size)):
            raise RequestError("a token id is not in the vocabulary")
        if not are_tokens((token for token, _ in self.sampling.logit_bias), vocabulary_size):
            raise RequestError("logit_bias has a token id that is not in the vocabulary")

    def to_dict(self) -> dict[str, Any]:
        """The request as JSON has it."""
        return {
            "prompt": list(self.prompt),
            "sampling": self.sampling.to_dict(),
            "max_tokens": self.max_tokens,
            "stop": list(self.stop),
            "resume": None if self.resume is None else asdict(self.resume),
            "checkpoint": None if self.checkpoint is None else asdict(self.checkpoint),
            "grammar": self.grammar,
            "top_logprobs": self.top_logprobs,
            "marks": list(self.marks),
            "reasoning_end": self.reasoning_end,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "GenerateRequest":
        """Read what `to_dict` wrote; `RequestError` where it cannot be meant."""
        try:
            return cls(
                prompt=data["prompt"],
                sampling=SamplingParams(**data.get("sampling") or {}),
                max_tokens=data.get("max_tokens"),
                stop=data.get("stop") or (),
                resume=Resume(**data["resume"]) if data.get("resume") else None,
                checkpoint=Checkpoint(**data["checkpoint"]) if data.get("checkpoint") else None,
                grammar=data.get("grammar"),
                top_logprobs=data.get("top_logprobs"),
                marks=data.get("marks") or (),
                reasoning_end=data.get("reasoning_end") or "",
            )
        except RequestError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise RequestError(f"not a generation request: {error}") from error


def are_tokens(ids: Iterable[int], vocabulary_size: int) -> bool:
    """Tell whether all these are ids of tokens of a vocabulary of that size."""
    known = range(vocabulary_size)
    return all(token in known for token in ids)


@dataclass(frozen=True, slots=True)
class EngineAddress:
    """A loaded engine: where it listens, and what decides whether a journal can be continued on it exactly."""

    socket: str
    fingerprint: str
    slots: int
    context_length: int
    pid: int

    def to_dict(self) -> dict[str, Any]:
        """The address as JSON has it."""
        return asdict(self)


class Engine(Protocol):
    """A loaded model that advances many sequences at once. All but `cancel` belong to one thread."""

    @property
    def fingerprint(self) -> str:
        """Equal where equal journals continue to equal tokens: model, library build and decode settings."""

    @property
    def slots(self) -> int:
        """How many sequences run at once; the rest wait."""

    @property
    def context_length(self) -> int:
        """How many tokens, prompt and output together, one sequence can hold."""

    @property
    def is_idle(self) -> bool:
        """Whether `step` has nothing to do."""

    @property
    def is_prefilling(self) -> bool:
        """Whether the next step may take many times as long as a decode: a moment to pass on what is at hand."""

    def submit(self, key: int, request: GenerateRequest) -> None:
        """Take a request under a `key` of the caller's choice; `RequestError` where it can never be fulfilled."""

    def prepare(self, prompt: Sequence[int]) -> None:
        """Begin to read a prompt whose request is about to come, if there is nothing better to do; or do nothing."""

    def cancel(self, key: int) -> None:
        """Give the request up, from any thread, also in the middle of a step. Unknown keys are ignored."""

    def step(self) -> list[tuple[int, Message]]:
        """Do one short piece of work (a decode, or a chunk of a prefill) and say what came of it, by key.

        A request's last message is `Finished`, also after a cancel, or `Failed`.
        """

    def info(self) -> dict[str, Any]:
        """Figures for people: busy slots, tokens generated, threads."""

    def close(self) -> None:
        """Free the model. The engine cannot be used afterwards."""


EngineLoader = Callable[[ModelSpec, Callable[[float], None]], Engine]
"""Loads a model and reports its progress from 0 to 1; `LoadError` where that fails."""
