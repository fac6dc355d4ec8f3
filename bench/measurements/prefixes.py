"""The first token of prompts that begin as earlier ones did, by that of prompts that begin as none did."""

import statistics

from bench.findings import Finding, spread
from bench.prompts import Chat
from bench.subjects import Subjects

_TOKENS = 2
_SYSTEM = "You are the guide of an old city and know its towers, its river and its people. " * 30
_QUESTIONS = (
    "Which of the towers is the oldest, who built it, and what is it used for today?",
    "Where does the river come from, what do people do on it, and where does it end?",
    "Who are the people that live by the harbour, and what do they do in the evening?",
)


def measure(subjects: Subjects) -> list[Finding]:
    """Ask three questions under a system prompt that is new: the third finds what the others have in common."""
    subjects.stop_raw_loops()
    new, known, lengths = [], [], []
    for number in range(max(3, subjects.options.samples // 4)):
        answers = [subjects.service.respond([_chat(number, question)], _TOKENS)[0] for question in _QUESTIONS]
        new.append(1000 * answers[0].first_token)
        known.append(1000 * answers[-1].first_token)
        lengths.append(answers[0].input_tokens)
    ratio = statistics.median(known) / statistics.median(new)
    return [
        Finding(
            "prefixes",
            f"first token, {round(statistics.median(lengths))} prompt tokens, known by new beginning",
            ratio,
            "",
            None,
            is_ceiling=True,
            columns=(f"{statistics.median(known):.0f} ms", f"{statistics.median(new):.0f} ms (new)", ""),
            detail={"known_ms": spread(known, 1), "new_ms": spread(new, 1)},
        )
    ]


def _chat(number: int, question: str) -> Chat:
    return [{"role": "system", "content": f"{number}. {_SYSTEM}"}, {"role": "user", "content": question}]
