"""From token bytes to text: characters that span tokens, and stop texts.

Pure: the same pieces always release the same text, so a resumed generation rebuilds its state by feeding the
tokens it already had.
"""

import codecs
from collections.abc import Sequence


class TextAssembler:
    """Joins the bytes of tokens to text, up to the first stop text.

    What is released never ends within a character and never has to be taken back: text that may turn out to be
    the beginning of a stop text is held back, and nothing else is. Of several stop texts the one that is complete
    first counts, and of those complete at once the longest, so that the output does not depend on how the text
    is cut into tokens. Bytes that are not UTF-8 become U+FFFD.
    """

    def __init__(self, stop: Sequence[str] = ()) -> None:
        if not all(stop):
            raise ValueError("a stop text must not be empty")
        self.stopped = False
        """Whether a stop text was found; from then on nothing more is released."""

        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._stop = tuple(stop)
        self._longest_prefix = max(map(len, stop), default=0) - 1
        self._held = ""

    def feed(self, piece: bytes) -> str:
        """Take the bytes of the next token and return the text that they release."""
        return "" if self.stopped else self._release(self._decoder.decode(piece))

    def finish(self) -> str:
        """Return what is still held back: no more bytes will come."""
        released = "" if self.stopped else self._release(self._decoder.decode(b"", final=True))
        held, self._held = self._held, ""
        return released + held

    def _release(self, text: str) -> str:
        if not self._stop:
            return text
        text = self._held + text
        start = self._find_stop(text)
        if start is not None:
            self.stopped = True
            self._held = ""
            return text[:start]
        keep = len(text) - self._possible_stop_length(text)
        self._held = text[keep:]
        return text[:keep]

    def _find_stop(self, text: str) -> int | None:
        """Where the stop text that ends first begins."""
        found = [(at + len(stop), at) for stop in self._stop if (at := text.find(stop)) >= 0]
        return min(found)[1] if found else None

    def _possible_stop_length(self, text: str) -> int:
        """How many characters at the end may be the beginning of a stop text."""
        for length in range(min(len(text), self._longest_prefix), 0, -1):
            ending = text[-length:]
            if any(stop.startswith(ending) for stop in self._stop):
                return length
        return 0
