"""What the load of the crash tests asks for: greedy and seeded, short and long, with stop texts and many scripts.

Every request has one text, its twin: what an undisturbed service makes of it. That holds for the demo model's
quantisation as long as prompt and output stay below 256 tokens, whatever runs beside a task; hence the limits.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tests.service import Service

_GREEDY = {"temperature": 0}
_STORY = "Write a long story about a lighthouse keeper."
_SCRIPTS = "Write hello in Russian, Chinese, Arabic and Hindi."

REQUESTS: dict[str, dict[str, Any]] = {
    "greedy short": {"input": "Say hello.", "max_output_tokens": 12, **_GREEDY},
    "greedy to its end": {"input": "Hi", **_GREEDY, "max_output_tokens": 60},
    "greedy long": {"input": _STORY, "max_output_tokens": 160, **_GREEDY},
    "greedy with stops": {"input": _STORY, "max_output_tokens": 120, "stop": ["the sea", "keeper,"], **_GREEDY},
    "greedy in many scripts": {"input": _SCRIPTS, "max_output_tokens": 90, **_GREEDY},
    "greedy with penalties": {
        "input": "Tell me about the moon.",
        "max_output_tokens": 80,
        "presence_penalty": 0.6,
        "frequency_penalty": 0.3,
        **_GREEDY,
    },
    "seeded short": {"input": "Name a colour.", "max_output_tokens": 16, "temperature": 0.9, "seed": 3},
    "seeded long": {"input": _STORY, "max_output_tokens": 150, "temperature": 0.8, "top_p": 0.95, "seed": 7},
    "seeded with stops": {
        "input": "Count from one to thirty in words.",
        "max_output_tokens": 110,
        "stop": ["twenty", "\n\n\n"],
        "temperature": 0.7,
        "seed": 11,
    },
    "seeded in many scripts": {"input": _SCRIPTS, "max_output_tokens": 100, "temperature": 1.1, "seed": 5},
    "seeded emoji": {
        "input": "Answer with emoji alone: 🌍 🌊 🐋 ☀️ 🚀",
        "max_output_tokens": 70,
        "stop": ["🐋🐋🐋"],
        "temperature": 1.0,
        "seed": 2,
    },
}


@dataclass(frozen=True)
class Twin:
    """What an undisturbed run of a request says and counts."""

    text: str
    usage: dict[str, Any]


def twins(service: Service, names: Iterable[str] = REQUESTS) -> dict[str, Twin]:
    """Have each of these requests answered by a service that nobody disturbs."""
    tasks = {name: service.create(**_create(REQUESTS[name]))["id"] for name in names}
    found = {}
    for name, task_id in tasks.items():
        task = service.finished(task_id, 300)
        assert task["status"] == "completed", task
        assert task["usage"]["total_tokens"] < 256, f"{name}: not comparable beyond 255 tokens"
        found[name] = Twin(task["output_text"], task["usage"])
    return found


def _create(request: dict[str, Any]) -> dict[str, Any]:
    return {"text": request["input"], **{name: value for name, value in request.items() if name != "input"}}
