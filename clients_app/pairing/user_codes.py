"""User codes: what a program shows and a person types."""

import re
import secrets

# RFC 8628, 6.1: without vowels, so that no code spells a word; 20^8 of them.
ALPHABET = "BCDFGHJKLMNPQRSTVWXZ"
LENGTH = 8
_CODE = re.compile(f"[{ALPHABET}]{{{LENGTH}}}")


def generate() -> str:
    """Return eight letters by chance."""
    return "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))


def shown(code: str) -> str:
    """Return a code as people read it: ``XXXX-XXXX``."""
    return f"{code[: LENGTH // 2]}-{code[LENGTH // 2 :]}"


def normalized(typed: str) -> str | None:
    """Return what somebody has typed as it is stored, or ``None`` where no code is like that.

    Case, blanks and dashes make no difference.
    """
    code = re.sub(r"[\s-]", "", typed).upper()
    return code if _CODE.fullmatch(code) else None
