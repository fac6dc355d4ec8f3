"""Identifiers: a prefix that names the kind, then time and chance, so that they sort by age."""

import secrets
import threading
import time
from datetime import UTC, datetime, timedelta

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32
SUFFIX_LENGTH = 26  # 48 bits of time, 80 random bits, as in a ULID
_RANDOM_BITS = 80
_TIME_LENGTH = 10  # Characters that hold the time: the highest of their 50 bits are zero.
_LAST_MILLISECOND = 2**48 - 1
# Ids of one millisecond begin in the lower half and go on by steps that nobody can guess: room for 30,000 of them.
_FIRST_BITS = 79
_STEP_BITS = 64

_one_at_a_time = threading.Lock()
_newest = 0


def new_suffix() -> str:
    """Return 26 characters: milliseconds since 1970, then 80 random bits.

    Those of one process ascend, within a millisecond too, as long as nobody sets its clock back.
    """
    global _newest
    with _one_at_a_time:
        millisecond = time.time_ns() // 1_000_000
        if millisecond == _newest >> _RANDOM_BITS:
            _newest += 1 + secrets.randbits(_STEP_BITS)
        else:
            _newest = millisecond << _RANDOM_BITS | secrets.randbits(_FIRST_BITS)
        return _encode(_newest)


def new_id(prefix: str) -> str:
    """Return a new id such as ``task_01jd…``."""
    return f"{prefix}_{new_suffix()}"


def first_id_at(prefix: str, seconds: float) -> str:
    """Return what every id made at or after a moment, in Unix time, is not less than."""
    return f"{prefix}_{_encode(min(int(seconds * 1000), _LAST_MILLISECOND) << _RANDOM_BITS)}"


def moment_of(suffix: str) -> datetime:
    """Return when a suffix was made, to the millisecond."""
    milliseconds = 0
    for character in suffix[:_TIME_LENGTH]:
        milliseconds = milliseconds << 5 | ALPHABET.index(character)
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=milliseconds)


def made_at(identifier: str) -> float:
    """Return when an id was made, in Unix time.

    Raises:
        ValueError: it is no id.
    """
    _, _, suffix = identifier.rpartition("_")
    if len(suffix) != SUFFIX_LENGTH:
        raise ValueError(identifier)
    return moment_of(suffix).timestamp()


def _encode(number: int) -> str:
    return "".join(ALPHABET[(number >> shift) & 31] for shift in range(5 * (SUFFIX_LENGTH - 1), -1, -5))
