"""Clients that tests pair by the dozen: by the row that ``create_client`` would write, without a process for each."""

import json
from typing import NamedTuple

from clients_app import tokens
from lmsp_site.ids import new_id
from tests.service import Service

_INSERT = "INSERT INTO clients (id, name, token_hash, scopes, created_at) VALUES (?, ?, ?, ?, '2030-01-01 00:00:00')"


class Paired(NamedTuple):
    """A client, and the token that nobody else knows."""

    id: str
    token: str


def paired(service: Service, name: str, *scopes: str) -> Paired:
    """Pair a client with these scopes and no others."""
    made = Paired(new_id("client"), tokens.generate())
    service.sql(_INSERT, made.id, name, tokens.digest(made.token), json.dumps(scopes))
    return made
