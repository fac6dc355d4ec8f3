"""Text in, segments out: calls and reasoning are found in what a model writes while it writes it.

What has been said of a text depends on the text alone, never on how it was cut, so that a resumed run that is given
the text it had again knows what it has said. A call is opened as soon as its name and the beginning of its arguments
are sure, and nothing that was opened is taken back; whatever turns out not to be a call before that is text.
"""

import re
from collections.abc import Callable, Collection, Iterator
from typing import Literal

from models_app.parsing.call_formats import THINK, THINK_END, CallFormat
from models_app.parsing.json_scanner import Incomplete, ObjectScanner, loads, read_header, space
from models_app.parsing.segments import Arguments, Call, Closed, Reasoning, Segment, Text

# A call whose name has not come by then is text.
_LONGEST_HEADER = 8192
_NAMED = re.compile(r"([A-Za-z0-9_-]{1,128})(?:\[CALL_ID\][A-Za-z0-9_-]{1,64})?(?:\[ARGS\])?(?=\{)")
_MAY_BE_NAMED = re.compile(r"[A-Za-z0-9_\-\[\]]{0,220}")


class OutputParser:
    """Takes apart the output of one request.

    Args:
        calls: the form of the calls; ``None`` where there are no tools.
        names: the tools that can be called.
        reasoning: ``tagged`` where the model may begin with a block of its own, ``begun`` where the prompt has
            already begun it.
        most_calls: after how many calls the output is over.
    """

    def __init__(
        self,
        calls: CallFormat | None,
        names: Collection[str] = (),
        reasoning: Literal["tagged", "begun"] | None = None,
        most_calls: int | None = None,
    ) -> None:
        self.is_over = False
        """Whether as many calls were made as may be; what follows is left out."""

        self._calls = calls
        self._mark = calls.mark if calls else ""
        self._names = frozenset(names)
        self._most_calls = most_calls
        self._made = 0
        self._buffer = ""
        self._candidate = ""  # What has led to where a call is looked for: text, if there is none.
        self._says = False  # The last segment is text.
        self._anything = False  # There was a segment before.
        self._thinks = False  # The block that is open has had text.
        self._in_list = False
        self._is_named = False  # The call that is open is no JSON object.
        self._written: list[str] = []
        self._scanner = ObjectScanner()
        self._state: Callable[[], Iterator[Segment]]
        self._state = {"tagged": self._beginning, "begun": self._reasoning}.get(reasoning or "", self._first)

    def feed(self, text: str) -> list[Segment]:
        """Take the next piece and return all that is sure by now."""
        self._buffer += text
        return list(self._advance())

    def finish(self) -> list[Segment]:
        """Return the rest: no more text will come. What might have become a call is text."""
        segments = list(self._advance())
        rest = self._candidate + self._buffer
        self._candidate = self._buffer = ""
        if self.is_over or self._state in (self._rest, self._between):
            return segments
        if self._state == self._reasoning:
            return segments + list(self._think(rest.rstrip()))
        if self._state == self._arguments:
            return [*segments, Closed(whole=False)]
        return segments + list(self._say(rest))

    def _advance(self) -> Iterator[Segment]:
        """Take all steps that can be taken; one that must wait for more leaves state and buffer as they are."""
        before = None
        while not self.is_over and before != (self._state, len(self._buffer)):
            before = self._state, len(self._buffer)
            yield from self._state()

    def _go(self, state: Callable[[], Iterator[Segment]], taken: int = 0) -> None:
        self._state = state
        self._buffer = self._buffer[taken:]

    # Reasoning.

    def _beginning(self) -> Iterator[Segment]:
        at = space(self._buffer)
        rest = self._buffer[at:]
        if rest.startswith(THINK):
            self._go(self._reasoning, at + len(THINK))
        elif not THINK.startswith(rest):
            self._go(self._first)
        yield from ()

    def _reasoning(self) -> Iterator[Segment]:
        at = self._buffer.find(THINK_END)
        if at < 0:
            yield from self._settled(THINK_END, self._think)
            return
        yield from self._think(self._buffer[:at].rstrip())
        if self._thinks:
            yield Closed()
        self._thinks, self._anything = False, True
        self._go(self._beginning, at + len(THINK_END))

    def _think(self, text: str) -> Iterator[Segment]:
        text = text if self._thinks else text.lstrip()
        if text:
            self._thinks = self._anything = True
            yield Reasoning(text)

    # Text.

    def _first(self) -> Iterator[Segment]:
        if self._calls is None or not self._calls.bare:
            self._go(self._text)
        elif (at := space(self._buffer)) < len(self._buffer):
            if self._buffer[at] == "{":
                self._candidate = self._buffer[:at]
                self._go(self._header, at)
            else:
                self._go(self._text)
        yield from ()

    def _text(self) -> Iterator[Segment]:
        at = self._buffer.find(self._mark) if self._mark else -1
        if at < 0:
            yield from self._settled(self._mark, self._say)
            return
        sure = self._buffer[:at].rstrip()
        yield from self._say(sure)
        end = at + len(self._mark)
        self._candidate = self._buffer[len(sure) : end]
        assert self._calls is not None
        self._go(self._opened if self._calls.listed else self._header, end)

    def _settled(self, mark: str, say: Callable[[str], Iterator[Segment]]) -> Iterator[Segment]:
        """Say all but what may be the beginning of a mark, and white space, which goes with what follows it."""
        sure = self._buffer[: len(self._buffer) - _possible_mark(self._buffer, mark)].rstrip()
        self._buffer = self._buffer[len(sure) :]
        yield from say(sure)

    def _say(self, text: str) -> Iterator[Segment]:
        text = text.lstrip() if self._anything and not self._says else text
        if text:
            self._says = self._anything = True
            yield Text(text)

    # Calls.

    def _opened(self) -> Iterator[Segment]:
        """After the mark of a list: the list, or in newer models a name with arguments."""
        at = space(self._buffer)
        rest = self._buffer[at:]
        named = _NAMED.match(rest)
        if rest.startswith("["):
            self._in_list, self._is_named = True, False
            self._candidate += self._buffer[: at + 1]
            self._go(self._header, at + 1)
        elif named and named[1] in self._names:
            self._is_named = True
            yield self._open(named[1])
            self._go(self._arguments, at + named.end())
        elif named or not _MAY_BE_NAMED.fullmatch(rest):
            yield from self._fail()

    def _header(self) -> Iterator[Segment]:
        try:
            header = read_header(self._buffer[:_LONGEST_HEADER])
        except Incomplete:
            if len(self._buffer) >= _LONGEST_HEADER:
                yield from self._fail()
            return
        except ValueError:
            yield from self._fail()
            return
        if header.name not in self._names:
            yield from self._fail()
            return
        yield self._open(header.name)
        if header.arguments is None:
            self._go(self._arguments, header.end)
        else:
            yield Arguments(header.arguments)
            yield self._close(whole=True)
            self._go(self._rest, header.end)

    def _open(self, name: str) -> Segment:
        self._candidate = ""
        self._written = []
        self._scanner = ObjectScanner()
        return Call(name)

    def _close(self, *, whole: bool) -> Segment:
        self._says, self._anything = False, True
        self._made += 1
        self.is_over = self._made == self._most_calls
        return Closed(whole)

    def _arguments(self) -> Iterator[Segment]:
        end = self._scanner.feed(self._buffer)
        if end:
            self._written.append(self._buffer[:end])
            yield Arguments(self._written[-1])
        self._buffer = self._buffer[end:]
        if self._scanner.complete:
            yield self._close(whole=_is_json("".join(self._written)))
            self._go(self._text if self._is_named else self._rest)
        elif self._scanner.broken:
            yield self._close(whole=False)
            self._go(self._text)

    def _rest(self) -> Iterator[Segment]:
        """After the arguments: the end of the object that they are in."""
        at = space(self._buffer)
        following = self._buffer[at : at + 1]
        if following == "}":
            self._go(self._between, at + 1)
        elif following == ",":
            scanner = ObjectScanner()
            end = scanner.feed("{" + self._buffer[at + 1 : at + _LONGEST_HEADER])
            if scanner.complete:
                self._go(self._between, at + end)
            elif scanner.broken or len(self._buffer) >= at + _LONGEST_HEADER:
                self._go(self._text)
        elif following:
            self._go(self._text)
        yield from ()

    def _between(self) -> Iterator[Segment]:
        """After a call: its closing mark, another call, or text."""
        assert self._calls is not None
        at = space(self._buffer)
        rest = self._buffer[at:]
        if self._calls.end:
            if rest.startswith(self._calls.end):
                self._go(self._text, at + len(self._calls.end))
            elif not self._calls.end.startswith(rest):
                self._go(self._text)
        elif rest.startswith("," if self._in_list else ";"):
            self._candidate = self._buffer[: at + 1]
            self._go(self._header, at + 1)
        elif rest.startswith("{") and self._calls.bare:
            self._candidate = self._buffer[:at]
            self._go(self._header, at)
        elif rest:
            self._go(self._text, at + (self._in_list and rest[0] == "]"))
        yield from ()

    def _fail(self) -> Iterator[Segment]:
        """What has led here was no call."""
        candidate, self._candidate = self._candidate, ""
        self._go(self._text)
        yield from self._say(candidate)


def _possible_mark(text: str, mark: str) -> int:
    """Return how many characters at the end of `text` may be the beginning of `mark`."""
    for length in range(min(len(text), len(mark) - 1), 0, -1):
        if mark.startswith(text[-length:]):
            return length
    return 0


def _is_json(text: str) -> bool:
    try:
        loads(text)
    except ValueError:
        return False
    return True
