"""Where a prompt is cut into the chunks of its prefill: by its length alone, so that all runs cut it alike."""

from collections.abc import Iterator

_SHORT_REST = 4
"""A rest of less than this part of a chunk (a fourth) is read with the chunk before it.

By itself a single token takes as long as a decode.
"""


def end_of(start: int, length: int, chunk: int) -> int:
    """Return where the chunk that begins at `start` ends, in a prompt of `length` tokens."""
    return length if length - start <= largest(chunk) else start + chunk


def largest(chunk: int) -> int:
    """Return how many tokens the last chunk of a prompt has at most."""
    return chunk + -(-chunk // _SHORT_REST) - 1


def borders(length: int, chunk: int) -> Iterator[int]:
    """Yield the places between two chunks of a prompt: multiples of `chunk`."""
    end = 0
    while (end := end_of(end, length, chunk)) < length:
        yield end
