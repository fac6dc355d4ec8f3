"""The service beside servers that people would use instead, which store nothing: streamed chat completions."""

import statistics
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from bench import client
from bench.client import ChatAnswer
from bench.comparison import SETTLE
from bench.findings import Finding, spread
from bench.prompts import Chat
from bench.rivals.servers import ALL, Rival
from bench.service import MODEL
from bench.subjects import Subjects

_PATH = "/v1/chat/completions"
_SERVICE = "service"
_TARGETS = {1: 1.0, 8: 1.05}
_MOST_UNSUITABLE = 10


def measure(subjects: Subjects) -> list[Finding]:
    """Tokens a second by those of the best of the others, with one client and with eight; first tokens beside it."""
    subjects.stop_raw_loops()
    options, engine = subjects.options, subjects.engine
    found = []
    with ExitStack() as stack:
        addresses = {_SERVICE: subjects.service.address}
        for name in ALL:
            rival = stack.enter_context(
                Rival(
                    name,
                    subjects.service.model_file,
                    threads=subjects.threads,
                    parallel=options.max_running,
                    context_length=engine["context_length"],
                )
            )
            addresses[name] = rival.address
            _ask(rival.address, "", subjects.prompts(1), options.tokens)
        for clients, target in _TARGETS.items():
            rounds = _rounds(subjects, addresses, clients)
            found.append(_finding(clients, target, rounds, options.tokens))
    return found


def _rounds(
    subjects: Subjects, addresses: dict[str, tuple[str, int]], clients: int
) -> list[dict[str, list[ChatAnswer]]]:
    """Let all have their turn on the same prompts, none always first; rounds in which an answer ends early are left."""
    done: list[dict[str, list[ChatAnswer]]] = []
    unsuitable = 0
    while len(done) < subjects.options.rounds:
        chats = subjects.prompts(clients)
        order = deque(addresses)
        order.rotate(len(done))
        answers = {}
        for name in order:
            time.sleep(SETTLE)
            token = subjects.service.token if name == _SERVICE else ""
            answers[name] = _ask(addresses[name], token, chats, subjects.options.tokens)
        if all(answer.reason == "length" for each in answers.values() for answer in each):
            done.append(answers)
        elif (unsuitable := unsuitable + 1) > _MOST_UNSUITABLE:
            raise client.CallError("this model's answers are too short to be compared; ask for fewer tokens")
    return done


def _ask(address: tuple[str, int], token: str, chats: list[Chat], tokens: int) -> list[ChatAnswer]:
    bodies = [
        {"model": MODEL, "messages": chat, "temperature": 0, "max_tokens": tokens, "stream": True} for chat in chats
    ]
    return client.stream(address, _PATH, token, bodies, ChatAnswer)


def _finding(clients: int, target: float, rounds: Sequence[dict[str, list[ChatAnswer]]], tokens: int) -> Finding:
    speeds = {
        name: [clients * tokens / max(answer.seconds for answer in each[name]) for each in rounds] for name in rounds[0]
    }
    medians = {name: statistics.median(values) for name, values in speeds.items()}
    best = max(ALL, key=lambda name: medians[name])
    ratios = [ours / theirs for ours, theirs in zip(speeds[_SERVICE], speeds[best], strict=True)]
    return Finding(
        f"rivals_{clients}",
        f"{clients} client{'s' * (clients > 1)}, by the best other server",
        statistics.median(ratios),
        "",
        target,
        is_ceiling=False,
        columns=(
            f"{medians[_SERVICE]:.1f} tok/s",
            ", ".join(f"{name} {medians[name]:.1f}" for name in ALL),
            f"{min(ratios):.3f} to {max(ratios):.3f}",
        ),
        detail={
            "ratios": spread(ratios, 3),
            "tokens_per_second": {name: spread(values, 1) for name, values in speeds.items()},
            "first_token_ms": {name: _first_tokens(rounds, name) for name in speeds},
        },
    )


def _first_tokens(rounds: Sequence[dict[str, list[ChatAnswer]]], name: str) -> dict[str, Any]:
    return spread([1000 * answer.first_token for each in rounds for answer in each[name]], 1)
