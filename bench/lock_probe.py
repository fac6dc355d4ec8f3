"""How long writers of a database wait: takes its write lock every few milliseconds and gives it back, until stdin ends.

A program of its own, `lock_probe.py DATABASE`: nothing else in its process can hold it up. It waits as the service's
connections do, by SQLite's own pauses of 1, 2, 5, 10 ms and so on. Prints as JSON its waits in milliseconds.
"""

import json
import select
import sqlite3
import sys
import time
from contextlib import closing

_PAUSE_SECONDS = 0.005
_TIMEOUT_SECONDS = 20.0


def main() -> None:
    """Probe until told to end."""
    waits = []
    with closing(sqlite3.connect(sys.argv[1], timeout=_TIMEOUT_SECONDS, isolation_level=None)) as connection:
        print("ready", flush=True)
        while not select.select([sys.stdin], [], [], _PAUSE_SECONDS)[0]:
            began = time.perf_counter()
            connection.execute("BEGIN IMMEDIATE")
            waits.append((time.perf_counter() - began) * 1000)
            connection.execute("ROLLBACK")
    print(json.dumps(waits))


if __name__ == "__main__":
    main()
