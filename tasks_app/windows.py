"""Calls about a conversation that run no model: how many tokens it has, and the compact form of it."""

import time
from typing import Any

from clients_app.models import Client
from lmsp_site.ids import new_id, new_suffix
from models_app import catalog
from tasks_app import compaction, conversation, items, responses


def count(client: Client, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the tokens that the prompt of a request would have, as an object of the API.

    Raises:
        ProtocolError: unknown model, a conversation that cannot be gone on with.
    """
    model = catalog.find(fields["model"])
    tokens = conversation.count(model, fields, conversation.resolve(client, fields))
    return {"object": "response.input_tokens", "input_tokens": tokens}


def compact(client: Client, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the compaction object of the conversation that a request names.

    No model is asked and nothing is lost: the items that come out are, as input, the very conversation that went in.
    Nothing is stored.

    Raises:
        ProtocolError: unknown model, a conversation that cannot be gone on with.
    """
    model = catalog.find(fields["model"])
    said = conversation.resolve(client, fields)
    whole = items.named(said, f"task_{new_suffix()}")
    sealed = {"id": new_id("cmp"), "type": "compaction", "encrypted_content": compaction.seal(client, whole)}
    return {
        "id": new_id("resp"),
        "object": "response.compaction",
        "created_at": int(time.time()),
        "output": [*(item for item in whole if items.is_message(item, "user")), sealed],
        "usage": responses.usage_object(conversation.count(model, fields, said), 0),
    }
