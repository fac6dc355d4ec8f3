"""Look at a JSON schema in a process of its own: `python -m models_app.check_schema < SCHEMA`.

Writes what is wrong with it as one JSON value, null where nothing is. The kernel ends it where that takes too long.
"""

import json
import os
import resource
import sys

from models_app import schemas

_CPU_SECONDS = 2
_MEMORY = 2 << 30


def main() -> None:
    """Read, look, write."""
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(10)  # who waits for an answer comes first
    json.dump(schemas.examine(json.load(sys.stdin.buffer)), sys.stdout)


if __name__ == "__main__":
    main()
