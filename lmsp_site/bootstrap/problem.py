"""What can stand in the way of setting up, each with what to do about it."""

import errno
import re
from pathlib import Path

AGAIN = "then run the same command again"


class SetupError(Exception):
    """Something stands in the way; the message says what it is and what to do, in one line."""


# The first that is found counts: a package that did not compile also leaves traces of retried downloads.
_SIGNS_IN_PIPS_OUTPUT = (
    (r"No space left on device|Disk quota exceeded", "The disk is full: make room, {again}."),
    (r"Failed building wheel for (?P<name>\S+)", "{name} did not compile; what the compiler said is in {log}."),
    (
        r"name resolution|Name or service not known|Network is unreachable|NewConnectionError|"
        r"Failed to establish a new connection|[Tt]imed? ?out|Connection (aborted|broken|refused|reset)|"
        r"Max retries exceeded|ProxyError|SSLError|IncompleteRead",
        "The package index cannot be reached: check the network, {again}.",
    ),
    (
        r"No matching distribution found for (?P<name>\S+)",
        "No release of {name} fits this Python and processor; try another Python: make run PYTHON=python3.12.",
    ),
)


def of_pip(output: str, log: Path) -> SetupError:
    """Return what stopped pip, judged by what it wrote."""
    for pattern, message in _SIGNS_IN_PIPS_OUTPUT:
        if sign := re.search(pattern, output):
            return SetupError(message.format(again=AGAIN, log=log, name=sign.groupdict().get("name")))
    return SetupError(f"pip failed; what it said is in {log}.")


def of_system(error: OSError) -> SetupError:
    """Return what the operating system refused."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return SetupError(f"The disk is full: make room, {AGAIN}.")
    if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        return SetupError(f"{error.filename} cannot be written: change its owner or its rights, {AGAIN}.")
    return SetupError(f"The operating system refused: {error}.")
