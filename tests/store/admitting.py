"""Whether a token is good, as every call finds out."""

from clients_app import authentication
from lmsp_site.errors import Unauthenticated


def admitted(token: str) -> bool:
    try:
        authentication.authenticate(f"Bearer {token}")
    except Unauthenticated:
        return False
    return True
