"""Bearer tokens: made here, shown once, stored as a hash."""

import base64
import hashlib
import secrets

PREFIX = "lmsp_"
_CHECKSUM_LENGTH = 6
_SECRET_LENGTH = 43  # 256 bits in base64url


def _checksum(secret: str) -> str:
    digest = hashlib.sha256(secret.encode()).digest()
    return base64.urlsafe_b64encode(digest).decode()[:_CHECKSUM_LENGTH]


def generate() -> str:
    """Return a new token: ``lmsp_``, 256 random bits, a checksum that lets scanners and typos be told."""
    secret = secrets.token_urlsafe(32)
    return f"{PREFIX}{secret}{_checksum(secret)}"


def well_formed(token: str) -> bool:
    """Tell whether `token` can have been made by ``generate``, without asking the database."""
    secret, checksum = token[len(PREFIX) : -_CHECKSUM_LENGTH], token[-_CHECKSUM_LENGTH:]
    return (
        token.isascii()
        and token.startswith(PREFIX)
        and len(secret) == _SECRET_LENGTH
        and secrets.compare_digest(checksum, _checksum(secret))
    )


def digest(token: str) -> str:
    """Return what the database keeps, and what a token is looked up by.

    A 256-bit random token needs no salt and no slow hash. Tokens themselves are compared nowhere: how long the look-up
    takes can tell something of a hash that the caller has made, and nothing of a token that it has not.
    """
    return hashlib.sha256(token.encode()).hexdigest()
