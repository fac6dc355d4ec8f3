"""Prompts: no two alike, and each with a long story for an answer.

They differ from the first word of the user's message on, so that a cache of prefixes, which the raw loop does not
have, would be of no use to the service.
"""

from collections.abc import Iterator

Chat = list[dict[str, str]]

_SYSTEM = "You tell long stories."
_HEROES = (
    "lighthouse keeper",
    "young fox",
    "clockmaker",
    "ferryman",
    "blind painter",
    "beekeeper",
    "sailor",
    "shepherd",
)
_PLACES = ("on a cold island", "in an old forest", "by a wide river", "in a town of towers", "at the edge of a desert")


def stories() -> Iterator[Chat]:
    """Yield prompts of about 60 tokens, for ever."""
    number = 0
    while True:
        number += 1
        hero = _HEROES[number % len(_HEROES)]
        place = _PLACES[number % len(_PLACES)]
        yield [
            {"role": "system", "content": _SYSTEM},
            {
                "role": "user",
                "content": (
                    f"{number}. Write a long story about a {hero} {place}. Tell in many chapters what happens from the"
                    " first day to the last, whom the hero meets, what they say, and how it ends."
                ),
            },
        ]
