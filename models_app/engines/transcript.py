"""What a request has generated so far, and whether that ends it: the same for every engine."""

from typing import Protocol

from models_app.engines.base import GenerateRequest
from models_app.engines.text import TextAssembler


class Vocabulary(Protocol):
    """A model's tokens."""

    size: int

    def piece(self, token: int) -> bytes:
        """The bytes that the token adds to the text."""

    def name(self, token: int) -> bytes:
        """The token's own name, also of one that has no text."""

    def is_end(self, token: int) -> bool:
        """Whether the model ends its turn with this token."""


class Transcript:
    """The tokens of one request, the row count of each, and their text.

    Starts with what the request resumes, so that it may have ended before anything is computed.
    """

    def __init__(self, request: GenerateRequest, vocabulary: Vocabulary, context_length: int) -> None:
        self.tokens: list[int] = []
        self.rows: list[int] = []
        self.reason: str | None = None
        """Why the request has ended: `stop` or `length`; `None` while it goes on."""

        self.reasoning_tokens = 0
        """How many tokens belong to the reasoning: all, until it has come to its end."""

        self._vocabulary = vocabulary
        self._marks = frozenset(mark.encode() for mark in request.marks)
        self._reasoning_end = request.reasoning_end.encode()
        self._reasons = bool(request.reasoning_end)
        self._latest = b""
        self._assembler = TextAssembler(request.stop)
        self._limit = context_length - len(request.prompt)
        if request.max_tokens is not None:
            self._limit = min(self._limit, request.max_tokens)
        resumed = request.resume
        self.resumed_text = "".join(map(self.append, resumed.tokens, resumed.rows)) if resumed else ""
        """What the resumed tokens had released."""

    @property
    def room(self) -> int:
        """How many tokens may still come."""
        return self._limit - len(self.tokens)

    def append(self, token: int, row: int) -> str:
        """Add a token and return the text that it releases: with the last token, also what was held back.

        The end token counts as a token and has no text.
        """
        self.tokens.append(token)
        self.rows.append(row)
        text = ""
        if self._vocabulary.is_end(token):
            self.reason = "stop"
        else:
            piece = self._piece(token)
            self._count(piece)
            text = self._assembler.feed(piece)
            if self._assembler.stopped:
                self.reason = "stop"
            elif len(self.tokens) >= self._limit:
                self.reason = "length"
        return text if self.reason is None else text + self._assembler.finish()

    def _piece(self, token: int) -> bytes:
        piece = self._vocabulary.piece(token)
        if piece or not self._marks:
            return piece
        name = self._vocabulary.name(token)
        return name if name in self._marks else piece

    def _count(self, piece: bytes) -> None:
        if not self._reasons:
            return
        self.reasoning_tokens += 1
        self._latest += piece
        self._reasons = self._reasoning_end not in self._latest
        self._latest = self._latest[-len(self._reasoning_end) :]

    def break_off(self, reason: str) -> str:
        """End the request where it is, and return the text that was held back."""
        self.reason = reason
        return self._assembler.finish()
