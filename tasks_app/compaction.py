"""Compaction items: a conversation in one string that only this service can have made.

It is signed and compressed, not encrypted: what it holds is its client's own. See ``docs/decisions``.
"""

from django.core import signing

from clients_app.models import Client
from lmsp_site.errors import InvalidRequest
from tasks_app.items import Item


def seal(client: Client, said: list[Item]) -> str:
    """Return the items as the ``encrypted_content`` of a compaction, for `client` alone."""
    return signing.dumps(said, salt=_salt(client), compress=True)


def unseal(client: Client, content: str) -> list[Item]:
    """Return the items of a compaction's ``encrypted_content``.

    Raises:
        InvalidRequest: it is not as this service has made it, or was made for another client
            (``invalid_encrypted_content``).
    """
    try:
        said: list[Item] = signing.loads(content, salt=_salt(client))
    except signing.BadSignature:
        raise InvalidRequest(
            "encrypted_content of a compaction cannot be verified: it was altered, or this service did not make it.",
            code="invalid_encrypted_content",
            param="input",
        ) from None
    return said


def _salt(client: Client) -> str:
    return f"lmsp.compaction.{client.pk}"
