"""From a bare checkout to a running service, with nothing but Python's standard library.

This file has to be understood by any Python, so that an old one can be told what it lacks.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036
    sys.exit(
        "This is Python %d.%d and 3.11 or later is needed; if there is one, name it: make run PYTHON=python3.12"  # noqa: UP031
        % sys.version_info[:2]
    )

if not sys.platform.startswith("linux"):
    sys.exit("The service runs on Linux; on another system, use a virtual machine or a container with Linux in it.")
