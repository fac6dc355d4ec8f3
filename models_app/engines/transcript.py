"""What a request has generated so far, and whether that ends it: the same for every engine."""

from typing import Protocol

from models_app.engines.base import GenerateRequest
from models_app.engines.text import TextAssembler


class Vocabulary(Protocol):
    """A model's tokens."""

    size: int

    def piece(self, token: int) -> bytes:
        """The bytes that the token adds to the text."""

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

        self._vocabulary = vocabulary
        self._assembler = TextAssembler(request.stop)
        self._limit = context_length - len(request.prompt)
        if request.max_tokens is not None:
            self._limit = min(self._limit, request.max_tokens)
        resumed = request.resume
        self.resumed_text = "".join(map(self.append, resumed.tokens, resumed.rows)) if resumed else ""
        """What the resumed tokens had released."""

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
            text = self._assembler.feed(self._vocabulary.piece(token))
            if self._assembler.stopped:
                self.reason = "stop"
            elif len(self.tokens) >= self._limit:
                self.reason = "length"
        return text if self.reason is None else text + self._assembler.finish()

    def break_off(self, reason: str) -> str:
        """End the request where it is, and return the text that was held back."""
        self.reason = reason
        return self._assembler.finish()
