"""Both sides on the same prompts: in turns, never at once, and neither always first."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from bench import costs
from bench.client import Answer
from bench.costs import Cost
from bench.prompts import Chat
from bench.subjects import Subjects
from models_app.engines import chunks
from models_app.engines.llamacpp_context import PREFILL_CHUNK

SETTLE = 0.3
"""Seconds before each turn, in which the last one's threads spin down and its last rows are written."""

SERVICE, RAW, ALL_CORES = "service", "raw loop", "raw loop on all cores"

_MOST_UNSUITABLE = 10


class DifferentOutput(RuntimeError):
    """The two sides did not do the same work, so their speeds say nothing."""


@dataclass(frozen=True, slots=True)
class Round:
    """What both sides made of the same prompts, and what that cost. Times in seconds."""

    answers: list[Answer]
    raw: dict[str, Any]
    on_all_cores: dict[str, Any] | None
    costs: dict[str, Cost]

    @property
    def tokens(self) -> int:
        """How many tokens each side generated."""
        return sum(map(len, self.raw["tokens"]))

    @property
    def service_speed(self) -> float:
        """Tokens a second, from the request to the last terminal event."""
        return self.tokens / max(answer.seconds for answer in self.answers)

    @property
    def raw_speed(self) -> float:
        """Tokens a second, from the prefill to the last token."""
        return self.tokens / float(self.raw["seconds"])

    @property
    def all_cores_speed(self) -> float | None:
        """The same for the raw loop with a thread for each core, where the engine has fewer."""
        if self.on_all_cores is None:
            return None
        return sum(map(len, self.on_all_cores["tokens"])) / float(self.on_all_cores["seconds"])

    @property
    def is_disturbed(self) -> bool:
        """Whether something else worked on this machine in any turn."""
        return any(cost.is_disturbed for cost in self.costs.values())


def compare(subjects: Subjects, *, at_once: int, tokens: int, rounds: int) -> list[Round]:
    """Have both sides answer `rounds` times `at_once` new prompts with `tokens` tokens each.

    A round that is disturbed counts all the same, unless there is patience left to repeat it; whether it is repeated
    never depends on what it found.

    Raises:
        DifferentOutput: their prompts or their outputs differ.
    """
    deadline = time.monotonic() + subjects.options.patience
    done: list[Round] = []
    unsuitable = 0
    while len(done) < rounds:
        costs.wait_for_quiet(deadline)
        finished = _round(subjects, subjects.prompts(at_once), tokens, len(done))
        if finished is None:
            unsuitable += 1
            if unsuitable > _MOST_UNSUITABLE:
                raise DifferentOutput(f"this model's answers have fewer than {tokens} tokens; ask for fewer")
        elif not finished.is_disturbed or time.monotonic() >= deadline:
            done.append(finished)
    return done


def summary(rounds: Sequence[Round]) -> dict[str, Any]:
    """Return what the rounds cost, as JSON has it."""
    return {
        "disturbed_rounds": sum(done.is_disturbed for done in rounds),
        **costs.summary(
            sum(done.tokens for done in rounds),
            [done.costs[SERVICE] for done in rounds],
            [done.costs[RAW] for done in rounds],
        ),
    }


def _round(subjects: Subjects, chats: list[Chat], tokens: int, number: int) -> Round | None:
    """Let each side have its turn; None where one of several answers ended early: then the others were not alike."""
    prompts = [subjects.raw.tokenize(chat) for chat in chats]
    sides: dict[str, Callable[[], Any]] = {
        SERVICE: partial(subjects.service.respond, chats, tokens),
        RAW: partial(subjects.raw.generate, prompts, tokens),
    }
    if wide := subjects.raw_on_all_cores:
        sides[ALL_CORES] = partial(wide.generate, prompts, tokens)
    order = deque(sides)
    order.rotate(number)
    results, spent = {}, {}
    for side in order:
        time.sleep(SETTLE)
        results[side], spent[side] = costs.accounted(subjects, sides[side])
    answers, raw = results[SERVICE], results[RAW]
    if len(chats) > 1 and len(raw["tokens"][0]) < tokens:
        return None
    _check(subjects, answers, raw, prompts, tokens)
    return Round(answers, raw, results.get(ALL_CORES), spent)


def _check(
    subjects: Subjects, answers: list[Answer], raw: dict[str, Any], prompts: list[list[int]], tokens: int
) -> None:
    """Both had the same prompts and said the same."""
    counted = [answer.input_tokens for answer in answers]
    if counted != [len(prompt) for prompt in prompts]:
        raise DifferentOutput(f"the service counts {counted} prompt tokens, the raw loop {[*map(len, prompts)]}")
    texts = [answer.text for answer in answers]
    generated = [answer.output_tokens for answer in answers]
    if texts == raw["texts"] and generated == [len(output) for output in raw["tokens"]]:
        return
    # The raw loop prefills as it is fastest. Other borders between chunks give other bits: where that chose another
    # token, it has to choose the service's with the service's borders. How many sequences run side by side changes
    # nothing for the demo model.
    again = [
        subjects.raw.generate([prompt], tokens, borders=[list(chunks.borders(len(prompt), PREFILL_CHUNK))])
        for prompt in prompts
    ]
    if texts != [result["texts"][0] for result in again]:
        raise DifferentOutput("the service's text is not the raw loop's")
    if generated != [len(result["tokens"][0]) for result in again]:
        raise DifferentOutput(f"the service counts {generated} output tokens, which are not the raw loop's")
