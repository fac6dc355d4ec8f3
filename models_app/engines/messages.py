"""What an engine says about a request, in its process and over the socket alike."""

from dataclasses import dataclass, field, fields
from typing import Any

from models_app.engines.logprobs import TokenLogprob


@dataclass(frozen=True, slots=True)
class Admitted:
    """The request has its slot. `exact` is false where a resume cannot be decoded as it was the first time."""

    slot: int
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Progress:
    """A `prefill` or `replay` that takes long: `done` of `total` tokens."""

    phase: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Replayed:
    """The journalled tokens are in the cache again; this is the text they had released.

    The first `restored` of them came from a checkpoint, the rest was decoded again.
    """

    text: str
    restored: int = 0


@dataclass(frozen=True, slots=True)
class Tokens:
    """New tokens, the row count of each (see `base.Resume`), and exactly the text they release.

    `logprobs` says how likely each of them was, end tokens left out; it is empty where nobody asked.
    """

    tokens: list[int]
    rows: list[int]
    text: str
    logprobs: list[TokenLogprob] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Finished:
    """The end: `reason` is `stop`, `length` or `cancelled`; the rest is what no `Tokens` message has carried.

    `timings` has seconds (`queued`, `prefill`, `replay`, `decode`) and counts (`prompt_tokens`,
    `output_tokens`, end token and replayed tokens included, `reasoning_tokens` where the request names the end of
    reasoning, and `replayed_tokens`).
    """

    reason: str
    tokens: list[int]
    rows: list[int]
    text: str
    timings: dict[str, float] = field(default_factory=dict)
    logprobs: list[TokenLogprob] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Failed:
    """The request cannot go on; no further message follows."""

    code: str
    message: str


Message = Admitted | Progress | Replayed | Tokens | Finished | Failed

_TYPES: dict[str, type[Message]] = {
    "admitted": Admitted,
    "progress": Progress,
    "replayed": Replayed,
    "tokens": Tokens,
    "finished": Finished,
    "error": Failed,
}
_NAMES = {kind: name for name, kind in _TYPES.items()}
_FIELDS = {kind: tuple(field.name for field in fields(kind)) for kind in _TYPES.values()}


def to_dict(message: Message) -> dict[str, Any]:
    """The message as JSON has it, with its `type`. It shares the message's lists."""
    kind = type(message)
    # Not dataclasses.asdict: it copies every list item by item, once for each token that is sent.
    return {"type": _NAMES[kind], **{name: getattr(message, name) for name in _FIELDS[kind]}}


def from_dict(data: dict[str, Any]) -> Message:
    """Read what `to_dict` wrote; `ValueError` where it is no message."""
    arguments = dict(data)
    try:
        return _TYPES[arguments.pop("type")](**arguments)
    except (KeyError, TypeError) as error:
        raise ValueError(f"not an engine message: {data!r}") from error
