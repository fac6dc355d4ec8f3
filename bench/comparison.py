"""Both sides on the same prompts: in turns, never at once, and neither always first."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from bench import costs
from bench.client import Answer
from bench.costs import Cost
from bench.prompts import Chat
from bench.subjects import Subjects
from models_app.engines.llamacpp_context import PREFILL_CHUNK

SETTLE = 0.3
"""Seconds before each turn, in which the last one's threads spin down and its last rows are written."""

_MOST_UNSUITABLE = 10


class DifferentOutput(RuntimeError):
    """The two sides did not do the same work, so their speeds say nothing."""


@dataclass(frozen=True, slots=True)
class Round:
    """What both sides made of the same prompts, and what that cost. Times in seconds."""

    answers: list[Answer]
    raw: dict[str, Any]
    service_cost: Cost
    raw_cost: Cost

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
    def is_disturbed(self) -> bool:
        """Whether something else worked on this machine in either turn."""
        return self.service_cost.is_disturbed or self.raw_cost.is_disturbed


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
        finished = _round(subjects, subjects.prompts(at_once), tokens, service_first=len(done) % 2 == 0)
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
            [done.service_cost for done in rounds],
            [done.raw_cost for done in rounds],
        ),
    }


def _round(subjects: Subjects, chats: list[Chat], tokens: int, *, service_first: bool) -> Round | None:
    """Let each side have its turn; None where one of several answers ended early: then the others were not alike."""
    prompts = [subjects.raw.tokenize(chat) for chat in chats]
    respond: Callable[[], list[Answer]] = partial(subjects.service.respond, chats, tokens)
    generate: Callable[[], dict[str, Any]] = partial(subjects.raw.generate, prompts, tokens)
    if service_first:
        time.sleep(SETTLE)
        answers, service_cost = costs.accounted(subjects, respond)
    time.sleep(SETTLE)
    raw, raw_cost = costs.accounted(subjects, generate)
    if not service_first:
        time.sleep(SETTLE)
        answers, service_cost = costs.accounted(subjects, respond)
    if len(chats) > 1 and len(raw["tokens"][0]) < tokens:
        return None
    _check(subjects, answers, raw, prompts, tokens)
    return Round(answers, raw, service_cost, raw_cost)


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
    again = [subjects.raw.generate([prompt], tokens, chunk=PREFILL_CHUNK) for prompt in prompts]
    if texts != [result["texts"][0] for result in again]:
        raise DifferentOutput("the service's text is not the raw loop's")
    if generated != [len(result["tokens"][0]) for result in again]:
        raise DifferentOutput(f"the service counts {generated} output tokens, which are not the raw loop's")
