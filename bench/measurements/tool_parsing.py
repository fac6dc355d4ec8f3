"""What it costs to look for calls and reasoning in what a model writes."""

import json
import statistics
import time

from bench.findings import Finding, spread
from bench.subjects import Subjects
from models_app.parsing.call_formats import HERMES
from models_app.parsing.parser import OutputParser
from models_app.parsing.segments import Arguments

_ROUNDS = 9
_ARGUMENTS = json.dumps({"text": "A king lived by the sea. " * 4000, "numbers": [*range(4000)]})
_TEXT = (
    f"<think>\n{'He thinks about it. ' * 2000}</think>\n\n{'Let me see. ' * 2000}\n"
    f'<tool_call>\n{{"name": "write", "arguments": {_ARGUMENTS}}}\n</tool_call>'
)
_TOKEN = 4  # Characters.


def measure(subjects: Subjects) -> list[Finding]:
    """Microseconds for a token of four characters, fed one by one: reasoning, then text, then a long call."""
    subjects.stop_raw_loops()
    pieces = [_TEXT[at : at + _TOKEN] for at in range(0, len(_TEXT), _TOKEN)]
    took = []
    for _ in range(_ROUNDS):
        parser = OutputParser(HERMES, ["write"], "tagged")
        began = time.perf_counter()
        segments = [segment for piece in pieces for segment in parser.feed(piece)]
        took.append((time.perf_counter() - began) * 1_000_000 / len(pieces))
        read = "".join(segment.text for segment in segments if isinstance(segment, Arguments))
        assert read == _ARGUMENTS, "the call is not read as it was written"
    median = statistics.median(took)
    return [
        Finding(
            "tool_parsing",
            "calls looked for, a token",
            median,
            "µs",
            None,
            is_ceiling=True,
            columns=("", f"{_TOKEN / median:.1f} MB/s"),
            detail={"microseconds_a_token": spread(took), "characters": len(_TEXT)},
        )
    ]
