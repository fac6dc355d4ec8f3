"""A client by what a person types: its id or its name."""

from clients_app.models import Client

_MOST_NAMED = 20


class UnknownClient(Exception):
    """No client is meant, or more than one; the message says which there are."""


def find(text: str) -> Client:
    """Return the client with this id, or the only one with this name.

    Raises:
        UnknownClient: see its message.
    """
    clients = Client.objects.filter(pk=text) or Client.objects.filter(name=text)
    if len(clients) == 1:
        return clients[0]
    if clients:
        raise UnknownClient(f"Several clients are called {text!r}: {', '.join(client.id for client in clients)}.")
    names = Client.objects.order_by("name").values_list("name", flat=True).distinct()
    known = ", ".join(names[:_MOST_NAMED]) or "none"
    more = ", …" if names.count() > _MOST_NAMED else ""
    raise UnknownClient(f"There is no client {text!r}. There are: {known}{more}.")
