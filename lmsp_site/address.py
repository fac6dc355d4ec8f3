"""The address that the service listens at, and what to do when it cannot."""

import errno
import os
import socket

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8000

# Connections that wait while the web server starts, or starts again.
_BACKLOG = 512
_REMEDIES = {
    errno.EADDRINUSE: "something listens there already; stop it or choose another port, for example LMSP_PORT={other}",
    errno.EADDRNOTAVAIL: "this machine has no such address; set LMSP_HOST to one of its own",
    errno.EACCES: "ports below 1024 need more rights; choose another one, for example LMSP_PORT=8000",
}
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


class AddressUnavailableError(Exception):
    """Nothing can be served at this address; the message says why and what to do, in one line."""


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens at this address.

    Raises:
        AddressUnavailableError: the address is taken, or not one of this machine.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, UnicodeError):
        reason = f"Cannot listen on {host}: it is not a name or address of this machine; set LMSP_HOST."
        raise AddressUnavailableError(reason) from None
    listener = socket.socket(family, kind, protocol)
    try:
        # Connections of an earlier service that are still closing do not count.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        number = error.errno or 0
        remedy = _REMEDIES.get(number, os.strerror(number)).format(other=port + 1 if port < 65535 else port - 1)
        raise AddressUnavailableError(f"Cannot listen on {host} port {port}: {remedy}.") from None
    return listener


def reachable(host: str) -> str:
    """Return the address by which this machine itself reaches a service that listens at `host`."""
    return _LOOPBACK.get(host, host)


def in_url(host: str) -> str:
    """Return a host as URLs and the header ``Host`` have it: an IPv6 address stands in brackets."""
    return f"[{host}]" if ":" in host else host


def url(host: str, port: int) -> str:
    """Return what a browser on this machine opens."""
    return f"http://{in_url(reachable(host))}:{port}"
