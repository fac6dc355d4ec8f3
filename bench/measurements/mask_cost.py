"""What an answer that follows a schema costs beside a free one: in speed, and a mask by itself."""

import statistics
import time
from typing import Any

from bench.findings import Finding, spread
from bench.service import ServiceError
from bench.subjects import Subjects
from models_app.engines import grammar, llamacpp

# Choices of every kind, for as many tokens as are asked for.
_SCHEMA: dict[str, Any] = {
    "type": "array",
    "minItems": 1000,
    "items": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 16},
            "age": {"type": "integer", "minimum": 0, "maximum": 150},
            "kind": {"enum": ["king", "queen", "knight"]},
        },
        "required": ["name", "age", "kind"],
        "additionalProperties": False,
    },
}
_FORM = {"text": {"format": {"type": "json_schema", "name": "people", "schema": _SCHEMA}}}


def measure(subjects: Subjects) -> list[Finding]:
    """Tokens a second of one stream with the schema, as a share of those without; milliseconds of a mask alone.

    The mask is computed in this process, over the tokens of what the service has answered, and so waits for nothing.
    """
    subjects.stop_raw_loops()
    free, following = [], []
    for _ in range(subjects.options.rounds):
        free.append(_speed(subjects, {})[0])
        speed, text = _speed(subjects, _FORM)
        following.append(speed)
    compiled, masks = _masks(subjects, text)
    share, median = statistics.median(following) / statistics.median(free), statistics.median(masks)
    return [
        Finding(
            "mask_cost",
            "a stream that follows a schema",
            share,
            "",
            None,
            is_ceiling=False,
            columns=(f"{statistics.median(following):.1f} tok/s", f"free: {statistics.median(free):.1f} tok/s"),
            detail={"tokens_per_second": {"following": spread(following), "free": spread(free)}},
        ),
        Finding(
            "mask",
            "a mask alone",
            median,
            "ms",
            None,
            is_ceiling=True,
            columns=("", f"compiled in {compiled:.0f} ms", f"the slowest of {len(masks)}: {max(masks):.1f} ms"),
            detail={"milliseconds": spread(masks), "compiled_ms": round(compiled, 1)},
        ),
    ]


def _speed(subjects: Subjects, fields: dict[str, Any]) -> tuple[float, str]:
    [answer] = subjects.service.respond(subjects.prompts(1), subjects.options.tokens, **fields)
    if fields and not answer.text.startswith("["):
        raise ServiceError(f"the answer does not follow its schema: {answer.text[:80]}")
    return answer.output_tokens / answer.seconds, answer.text


def _masks(subjects: Subjects, text: str) -> tuple[float, list[float]]:
    """Return how long the first mask took, all preparations with it, and how long each that followed, in ms."""
    vocabulary = llamacpp.open_tokenizer(subjects.service.model_file)
    compiler = grammar.Compiler(vocabulary)
    began = time.perf_counter()
    matcher = compiler.start(grammar.from_json_schema(_SCHEMA))
    matcher.mask()
    compiled = (time.perf_counter() - began) * 1000
    masks = []
    for token in vocabulary.encode(text, add_special=False, parse_special=False):
        began = time.perf_counter()
        matcher.accept(token)
        matcher.mask()
        masks.append((time.perf_counter() - began) * 1000)
    compiler.close()
    return compiled, masks
