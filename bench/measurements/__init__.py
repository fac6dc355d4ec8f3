"""The measurements, one a module. Each takes the subjects and returns what it found.

A new one is a module with a function `measure`, and a line in `ALL`; they run in that order.
"""

from collections.abc import Callable

from bench.findings import Finding
from bench.measurements import (
    accepting,
    admin,
    at_once,
    authentication,
    backup,
    first_token,
    growth,
    loading,
    mask_cost,
    memory,
    one_stream,
    prefixes,
    purge,
    recovery,
    rivals,
    stored_bytes,
    streams,
    tool_parsing,
)
from bench.subjects import Subjects

ALL: dict[str, Callable[[Subjects], list[Finding]]] = {
    "one_stream": one_stream.measure,
    "first_token": first_token.measure,
    "at_once": at_once.measure,
    "mask_cost": mask_cost.measure,
    "tool_parsing": tool_parsing.measure,
    "prefixes": prefixes.measure,
    "rivals": rivals.measure,
    "accepting": accepting.measure,
    "authentication": authentication.measure,
    "recovery": recovery.measure,
    "backup": backup.measure,
    "purge": purge.measure,
    "streams": streams.measure,
    "loading": loading.measure,
    "growth": growth.measure,
    "stored_bytes": stored_bytes.measure,
    "admin": admin.measure,
    # Last, when the service has worked and nothing else needs to run any more.
    "memory": memory.measure,
}
