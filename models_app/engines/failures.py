"""What a request is told that can be computed no further, by whatever engine."""

from models_app.engines.base import DecodeError
from models_app.engines.grammar import GrammarError
from models_app.engines.messages import Failed


def of(error: DecodeError | GrammarError) -> Failed:
    """Return the last message of a request that `error` has ended."""
    if isinstance(error, GrammarError):
        return Failed("grammar_error", f"The grammar of the output cannot be followed: {error}")
    return Failed("engine_error", str(error))
