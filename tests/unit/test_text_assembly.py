"""Text from token bytes, however it is cut: compared with a reference that sees all of it at once."""

import itertools
from collections.abc import Iterator, Sequence

import pytest

from models_app.engines.text import TextAssembler


def _reference(data: bytes, stop: Sequence[str]) -> tuple[str, bool]:
    """The whole text up to the stop text that is complete first, found by trying every end."""
    text = data.decode("utf-8", "replace")
    for end in range(len(text) + 1):
        complete = [s for s in stop if text[:end].endswith(s)]
        if complete:
            return text[: end - max(map(len, complete))], True
    return text, False


def _splittings(data: bytes) -> Iterator[list[bytes]]:
    """Every way to cut the bytes into pieces."""
    for cuts in itertools.product([False, True], repeat=max(0, len(data) - 1)):
        borders = [0, *(i + 1 for i, cut in enumerate(cuts) if cut), len(data)]
        yield [data[start:end] for start, end in itertools.pairwise(borders)]


def _assemble(pieces: Sequence[bytes], stop: Sequence[str]) -> tuple[list[str], str, bool]:
    assembler = TextAssembler(stop)
    released = [assembler.feed(piece) for piece in pieces]
    return released, assembler.finish(), assembler.stopped


CASES: list[tuple[str, bytes, tuple[str, ...]]] = [
    ("plain", b"hello world", ()),
    ("plain with a stop", b"hello world", ("o w",)),
    ("stop at the start", b"hello", ("he",)),
    ("stop at the end", b"hello", ("lo",)),
    ("stop is everything", b"hello", ("hello",)),
    ("stop that never comes", b"hello hell", ("hello!",)),
    ("stop that begins again and again", b"aabaabaac", ("aabaac",)),
    ("stop that overlaps itself", b"xababac", ("ababab", "abac")),
    ("one stop inside another", b"xabcdy", ("abcd", "bc")),
    ("one stop ends another", b"xabcd", ("abcd", "cd", "d")),
    ("one stop begins another", b"xabcd", ("ab", "abcd")),
    ("two at the same place", b"xabab", ("ba", "bab")),
    ("newlines", b"a\n\nb\n\n\nc", ("\n\n\n",)),
    ("two bytes", "né à".encode(), ("à",)),
    ("three bytes", "漢字かな".encode(), ("字か",)),
    ("emoji", "a🎉b🎊".encode(), ("🎊",)),
    ("emoji that share three bytes", "🎉🎊🎋".encode(), ("🎊🎌", "🎋")),
    ("joined emoji", "👨\N{ZERO WIDTH JOINER}👩!".encode(), ("👩",)),
    ("combining accent", "e\N{COMBINING ACUTE ACCENT}x".encode(), ("e",)),
    ("ends within a character", "ab🎉".encode()[:-1], ()),
    ("ends within a character that a stop has", "ab🎉".encode()[:-1], ("b🎉",)),
    ("a byte that begins nothing", b"a\xffb\x80c", ("b",)),
    ("a character broken off by another", b"a\xf0\x9fb\xe2\x82c", ("b",)),
    ("overlong", b"a\xc0\xafb", ()),
    ("a surrogate", b"a\xed\xa0\x80b", ()),
    ("a null", b"a\x00b", ("\x00",)),
    ("the replacement character as a stop", b"ab\xff\xffc", ("\N{REPLACEMENT CHARACTER}",)),
    ("nothing", b"", ("a",)),
]


@pytest.mark.parametrize(("data", "stop"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_every_way_to_cut_the_bytes_gives_the_same_text(data: bytes, stop: tuple[str, ...]) -> None:
    expected, stops = _reference(data, stop)
    for pieces in _splittings(data):
        released, rest, stopped = _assemble(pieces, stop)
        assert "".join(released) + rest == expected, pieces
        assert stopped == stops, pieces


# Python's decoder waits for the third byte of an encoded surrogate, which two bytes already make invalid.
PROMPT_CASES = [case for case in CASES if case[0] != "a surrogate"]


@pytest.mark.parametrize(("data", "stop"), [case[1:] for case in PROMPT_CASES], ids=[case[0] for case in PROMPT_CASES])
def test_text_is_released_as_early_as_it_is_safe(data: bytes, stop: tuple[str, ...]) -> None:
    """After each byte all is out but an unfinished character and what a stop text could still begin with."""
    assembler = TextAssembler(stop)
    out = ""
    for fed in range(1, len(data) + 1):
        out += assembler.feed(data[fed - 1 : fed])
        if assembler.stopped:
            break
        known = _certain_text(data[:fed])
        assert known.startswith(out)
        held = known[len(out) :]
        assert not held or any(text.startswith(held) and text != held for text in stop)
        longer = [known[i:] for i in range(len(out))]
        assert not any(text.startswith(ending) for ending in longer for text in stop)


def _certain_text(data: bytes) -> str:
    """The text whose last character is whole, or is certain never to be."""
    for unfinished in range(min(3, len(data)) + 1):
        prefix = data[: len(data) - unfinished]
        tail = data[len(prefix) :]
        if _begins_a_character(tail):
            return prefix.decode("utf-8", "replace")
    return data.decode("utf-8", "replace")


def _begins_a_character(tail: bytes) -> bool:
    """Whether more bytes could make one valid character of these (none at all do not count)."""
    if not tail:
        return False
    try:
        tail.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data" and error.start == 0
    return False


def test_nothing_is_released_after_a_stop_text() -> None:
    assembler = TextAssembler(["END"])
    assert assembler.feed(b"text EN") == "text "
    assert assembler.feed(b"D and more") == ""
    assert assembler.stopped
    assert assembler.feed(b"still more") == ""
    assert assembler.finish() == ""


def test_held_back_text_comes_out_when_it_was_no_stop_text() -> None:
    assembler = TextAssembler(["</s>"])
    assert [assembler.feed(piece) for piece in (b"a<", b"/", b"s", b"p>")] == ["a", "", "", "</sp>"]
    assert not assembler.stopped


def test_held_back_text_comes_out_at_the_end() -> None:
    assembler = TextAssembler(["</s>"])
    assert assembler.feed(b"a</s") == "a"
    assert assembler.finish() == "</s"
    assert assembler.finish() == ""


def test_replaying_the_same_pieces_gives_the_same_state() -> None:
    data = "one 🎉 two </s three".encode()
    pieces = [data[i : i + 3] for i in range(0, len(data), 3)]
    for cut in range(len(pieces) + 1):
        first, again = TextAssembler(["</s>"]), TextAssembler(["</s>"])
        before = "".join(map(first.feed, pieces[:cut]))
        assert "".join(map(again.feed, pieces[:cut])) == before
        after = [*map(first.feed, pieces[cut:]), first.finish()]
        assert [*map(again.feed, pieces[cut:]), again.finish()] == after


def test_every_pair_of_short_stop_texts_over_a_small_alphabet() -> None:
    """All texts of six letters and all pairs of stop texts of up to three, cut into single bytes."""
    letters = "ab"
    stops = ["".join(s) for length in (1, 2, 3) for s in itertools.product(letters, repeat=length)]
    texts = ["".join(t).encode() for t in itertools.product(letters, repeat=6)]
    for pair in itertools.combinations(stops, 2):
        for text in texts:
            released, rest, stopped = _assemble([text[i : i + 1] for i in range(len(text))], pair)
            assert ("".join(released) + rest, stopped) == _reference(text, pair)


def test_an_empty_stop_text_is_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        TextAssembler(["", "a"])
