"""Kept caches of what prompts begin with, so that a system prompt or the turns before are read once.

A prompt is prefilled in chunks with fixed borders, alone, so that the cache at a border is a function of the tokens
before it and of nothing else: to take it from an earlier prompt gives the very bits that reading it again would.
What is kept is the cache at the last border of each prompt, for the turn after it, and at the last border that it has
in common with an earlier one, for all that begin so.
"""

import hashlib
import mmap
from array import array
from collections import OrderedDict
from collections.abc import Sequence

from models_app.engines import chunks

Borders = Sequence[bytes]
"""A digest for each border of a prompt, of all tokens before it, the first border first."""

_MOST_REMEMBERED = 1 << 14
"""Borders of earlier prompts whose digests are remembered: half a megabyte."""


class PrefixCache:
    """Caches by what led to them, the most recently used ones within a number of bytes.

    Args:
        chunk: tokens from border to border.
        capacity: bytes; with 0 nothing is kept.
    """

    def __init__(self, chunk: int, capacity: int) -> None:
        self._chunk = chunk
        self._capacity = capacity
        self._kept: OrderedDict[bytes, mmap.mmap] = OrderedDict()
        self._seen: OrderedDict[bytes, None] = OrderedDict()
        self.size = 0
        """Bytes that are kept."""

        self.reused = 0
        """Tokens that were not read again so far."""

    def borders(self, prompt: Sequence[int]) -> Borders:
        """Return the borders of a prompt. Its last token is behind all of them: it is read for what comes after it."""
        if not self._capacity:
            return []
        digest = hashlib.sha256()
        found = []
        for end in chunks.borders(len(prompt), self._chunk):
            digest.update(array("I", prompt[end - self._chunk : end]).tobytes())
            found.append(digest.digest())
        return found

    def find(self, borders: Borders) -> tuple[int, mmap.mmap] | None:
        """Return the longest cache that is kept of a prompt, and its length in tokens."""
        for count in range(len(borders), 0, -1):
            state = self._kept.get(borders[count - 1])
            if state is not None:
                self._kept.move_to_end(borders[count - 1])
                return count * self._chunk, state
        return None

    def wanted(self, borders: Borders) -> set[int]:
        """Return the lengths, in tokens, at which the cache of a new prompt is to be kept; remember the prompt."""
        shared = next((count for count in range(len(borders), 0, -1) if borders[count - 1] in self._seen), 0)
        for border in borders:
            self._seen[border] = None
            self._seen.move_to_end(border)
        while len(self._seen) > _MOST_REMEMBERED:
            self._seen.popitem(last=False)
        counts = {shared, len(borders)} - {0}
        return {count * self._chunk for count in counts if borders[count - 1] not in self._kept}

    def keep(self, border: bytes, state: mmap.mmap) -> None:
        """Keep a cache; what was used least recently goes, and one that is larger than all the room is not kept."""
        if border in self._kept or len(state) > self._capacity:
            return
        self._kept[border] = state
        self.size += len(state)
        while self.size > self._capacity:
            _border, least = self._kept.popitem(last=False)
            self.size -= len(least)
