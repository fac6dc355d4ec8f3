"""Identifiers: a prefix that names the kind, then time and chance, so that they sort by age."""

import secrets
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32
_LENGTH = 26  # 48 bits of time, 80 random bits, as in a ULID


def new_suffix() -> str:
    """Return 26 characters: milliseconds since 1970, then 80 random bits."""
    number = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    return "".join(_ALPHABET[(number >> shift) & 31] for shift in range(5 * (_LENGTH - 1), -1, -5))


def new_id(prefix: str) -> str:
    """Return a new id such as ``task_01jd…``."""
    return f"{prefix}_{new_suffix()}"
