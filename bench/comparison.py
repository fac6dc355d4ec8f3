"""Both sides on the same prompts: in turns, never at once, and neither always first."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from bench import processes
from bench.client import Answer
from bench.processes import Process
from bench.subjects import Subjects

SETTLE = 0.3
"""Seconds between two turns, in which the last one's threads spin down and its last rows are written."""

SERVICE_CHUNK = 64
"""Tokens that the service prefills at once. Other borders give other bits, so texts are compared at these."""


class DifferentOutput(RuntimeError):
    """The two sides did not do the same work, so their speeds say nothing."""


@dataclass(frozen=True, slots=True)
class Round:
    """What both sides made of the same prompts. Times in seconds."""

    answers: list[Answer]
    raw: dict[str, Any]

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


@dataclass(slots=True)
class Costs:
    """Processor time while each side had its turns, in seconds; `foreign` is that of the machine's other processes."""

    tokens: int = 0
    service: Counter[str] = field(default_factory=Counter)
    waits: Counter[str] = field(default_factory=Counter)
    client: float = 0.0
    raw: float = 0.0
    service_seconds: float = 0.0
    raw_seconds: float = 0.0
    service_foreign: float = 0.0
    raw_foreign: float = 0.0
    service_idle: float = 0.0
    """What the service used while the raw loop had its turn."""

    def to_dict(self) -> dict[str, Any]:
        """The costs for 1,000 tokens, and how busy the rest of the machine was, as JSON has them."""
        thousands = max(self.tokens, 1) / 1000
        return {
            "cpu_seconds_per_1000_tokens": {
                **{role: round(seconds / thousands, 3) for role, seconds in sorted(self.service.items())},
                "client": round(self.client / thousands, 3),
                "raw loop": round(self.raw / thousands, 3),
            },
            "waits_per_1000_tokens": {role: round(count / thousands) for role, count in sorted(self.waits.items())},
            "idle_service_cores": round(self.service_idle / max(self.raw_seconds, 1e-9), 3),
            "foreign_cores": {
                "service": round(self.service_foreign / max(self.service_seconds, 1e-9), 2),
                "raw loop": round(self.raw_foreign / max(self.raw_seconds, 1e-9), 2),
            },
        }


def compare(subjects: Subjects, *, at_once: int, tokens: int, rounds: int) -> tuple[list[Round], Costs]:
    """Have both sides answer `rounds` times `at_once` new prompts with `tokens` tokens each.

    Raises:
        DifferentOutput: their prompts or their outputs differ.
    """
    costs = Costs()
    done = []
    for number in range(rounds):
        chats = subjects.prompts(at_once)
        prompts = [subjects.raw.tokenize(chat) for chat in chats]
        sides: dict[str, Callable[[], Any]] = {
            "service": partial(subjects.service.respond, chats, tokens),
            "raw": partial(subjects.raw.generate, prompts, tokens),
        }
        results = {}
        for name in sorted(sides, reverse=number % 2 == 0):
            time.sleep(SETTLE)
            results[name] = _accounted(subjects, costs, name, sides[name])
        finished = Round(results["service"], results["raw"])
        _check(subjects, finished, prompts, tokens)
        costs.tokens += finished.tokens
        done.append(finished)
    return done, costs


def _check(subjects: Subjects, finished: Round, prompts: list[list[int]], tokens: int) -> None:
    """Both had the same prompts and said the same."""
    counted = [answer.input_tokens for answer in finished.answers]
    if counted != [len(prompt) for prompt in prompts]:
        raise DifferentOutput(f"the service counts {counted} prompt tokens, the raw loop {[*map(len, prompts)]}")
    texts = [answer.text for answer in finished.answers]
    if texts == finished.raw["texts"]:
        return
    # The raw loop prefills as it is fastest. Where that chose another token, it has to choose the service's with the
    # service's borders; how many sequences run beside changes nothing for the demo model.
    again = [subjects.raw.generate([prompt], tokens, chunk=SERVICE_CHUNK) for prompt in prompts]
    if texts != [text for result in again for text in result["texts"]]:
        raise DifferentOutput("the service's text is not the raw loop's")


def _accounted(subjects: Subjects, costs: Costs, name: str, act: Callable[[], Any]) -> Any:
    """Let one side have its turn, and note what it cost everybody."""
    before, raw_before = subjects.service.processes(), subjects.raw.cpu()
    client_before, machine_before = time.process_time(), processes.machine_cpu()
    began = time.perf_counter()
    result = act()
    seconds = time.perf_counter() - began
    machine, client = processes.machine_cpu() - machine_before, time.process_time() - client_before
    raw = subjects.raw.cpu() - raw_before
    used, waits = _difference(before, subjects.service.processes())
    foreign = max(machine - client - raw - sum(used.values()), 0.0)
    if name == "service":
        costs.service.update(used)
        costs.waits.update(waits)
        costs.client += client
        costs.service_seconds += seconds
        costs.service_foreign += foreign
    else:
        costs.raw += raw
        costs.service_idle += sum(used.values())
        costs.raw_seconds += seconds
        costs.raw_foreign += foreign
    return result


def _difference(before: list[Process], after: list[Process]) -> tuple[Counter[str], Counter[str]]:
    used = Counter(processes.by_role(after, "cpu"))
    used.subtract(processes.by_role(before, "cpu"))
    waits = Counter(processes.by_role(after, "waits"))
    waits.subtract(processes.by_role(before, "waits"))
    return used, waits
