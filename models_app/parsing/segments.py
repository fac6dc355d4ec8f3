"""What the text of a model is made of."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Text:
    """Some of an answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Some of what the model thinks before it answers."""

    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool has begun."""

    name: str


@dataclass(frozen=True, slots=True)
class Arguments:
    """Some of the JSON text of the arguments of the call that has begun last."""

    text: str


@dataclass(frozen=True, slots=True)
class Closed:
    """The reasoning, or the call, that has begun last is over; `whole` unless its arguments are no JSON object."""

    whole: bool = True


Segment = Text | Reasoning | Call | Arguments | Closed


def merged(segments: Iterable[Segment]) -> list[Segment]:
    """Join what follows one another and is of one kind, so that it does not show how the text was cut."""
    found: list[Segment] = []
    for segment in segments:
        last = found[-1] if found else None
        match last, segment:
            case (Text(before), Text(text)):
                found[-1] = Text(before + text)
            case (Reasoning(before), Reasoning(text)):
                found[-1] = Reasoning(before + text)
            case (Arguments(before), Arguments(text)):
                found[-1] = Arguments(before + text)
            case _:
                found.append(segment)
    return found
