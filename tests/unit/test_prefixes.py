"""What is kept of prompts, and for how long."""

import mmap
from collections.abc import Sequence

from models_app.engines.prefixes import PrefixCache

CHUNK = 4
SIZE = mmap.PAGESIZE


def read(cache: PrefixCache, prompt: Sequence[int], size: int = SIZE) -> tuple[int, set[int]]:
    """Read a prompt as the scheduler does; return what was found of it, and the lengths that were kept."""
    borders = cache.borders(prompt)
    found = cache.find(borders)
    length = found[0] if found else 0
    wanted = {at for at in cache.wanted(borders) if at > length}
    for at in sorted(wanted):
        cache.keep(borders[at // CHUNK - 1], mmap.mmap(-1, size))
    return length, wanted


def test_a_turn_finds_the_one_before_it() -> None:
    cache = PrefixCache(CHUNK, 100 * SIZE)
    first = list(range(10))
    assert read(cache, first) == (0, {8})
    assert read(cache, [*first, *range(100, 107)]) == (8, {16})


def test_what_prompts_have_in_common_is_kept_when_the_second_one_comes() -> None:
    cache = PrefixCache(CHUNK, 100 * SIZE)
    system = list(range(9))
    assert read(cache, [*system, *[50] * 9]) == (0, {16})
    assert read(cache, [*system, *[60] * 9]) == (0, {8, 16})
    assert read(cache, [*system, *[70] * 9]) == (8, {16})


def test_the_last_token_is_always_read() -> None:
    cache = PrefixCache(CHUNK, 100 * SIZE)
    prompt = list(range(8))
    assert read(cache, prompt) == (0, {4})
    assert read(cache, prompt) == (4, set())
    assert read(cache, [1, 2, 3]) == (0, set())


def test_another_token_anywhere_before_a_border_is_another_beginning() -> None:
    cache = PrefixCache(CHUNK, 100 * SIZE)
    prompt = list(range(13))
    read(cache, prompt)
    for at in range(12):
        other = [*prompt[:at], 999, *prompt[at + 1 :]]
        assert cache.find(cache.borders(other)) is None


def test_what_was_used_least_recently_goes() -> None:
    cache = PrefixCache(CHUNK, 3 * SIZE)
    prompts = [[number] * 5 for number in range(4)]
    for prompt in prompts[:3]:
        read(cache, prompt)
    assert read(cache, prompts[0])[0] == 4
    read(cache, prompts[3])
    assert cache.size == 3 * SIZE
    assert [cache.find(cache.borders(prompt)) is not None for prompt in prompts] == [True, False, True, True]


def test_what_is_larger_than_all_the_room_takes_nothing_elses_place() -> None:
    cache = PrefixCache(CHUNK, 3 * SIZE)
    read(cache, [1] * 5)
    read(cache, [2] * 5, size=4 * SIZE)
    assert cache.size == SIZE
    assert cache.find(cache.borders([1] * 5)) is not None


def test_without_room_nothing_is_looked_for() -> None:
    cache = PrefixCache(CHUNK, 0)
    assert cache.borders(list(range(100))) == []
    assert read(cache, list(range(100))) == (0, set())
