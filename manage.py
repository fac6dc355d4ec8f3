#!/usr/bin/env python
"""Entry point of every management command."""

import os
import sys


def main() -> None:
    """Run the command named on the command line."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "lmsp_site.settings")
    try:
        from django.core.management import execute_from_command_line
    except ImportError:
        sys.exit("Django is not installed for this Python: run `make run` or `.venv/bin/python manage.py`.")
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
