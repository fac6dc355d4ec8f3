"""The service on one screen."""

import argparse
import os
import shutil
import sys
import time
from typing import Any

from django.core.management.base import CommandError, CommandParser

from lmsp_site.management.base import ServiceCommand
from tasks_app.console import colours, overview, screen, tables

_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
_HOME, _END_OF_LINE, _END_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"


class Command(ServiceCommand):
    """``status [--watch N]``: what runs, what waits, what is loaded, what is left of the disk."""

    help = "Show the state of the service on one screen, whether or not it runs."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add ``--watch``."""
        super().add_arguments(parser)
        parser.add_argument("--watch", type=_seconds, metavar="N", help="draw it anew every N seconds, until Ctrl-C")

    def handle(self, *args: Any, **options: Any) -> None:
        """Show it once, or again and again."""
        if options["no_color"]:
            os.environ["NO_COLOR"] = "1"
        self.style = colours.chosen(self.style)
        if options["watch"] and (options["json"] or not sys.stdout.isatty()):
            raise CommandError("--watch draws on a terminal; leave it out, and --json too if a person is to read it.")
        super().handle(*args, **options)
        if options["watch"]:
            self._watch(options["watch"])

    def run(self, **options: Any) -> dict[str, Any]:
        """Look."""
        return overview.overview()

    def describe(self, answer: dict[str, Any]) -> None:
        """Draw it."""
        for line in screen.lines(answer, self.style, tables.width_of(sys.stdout)):
            self.stdout.write(line)

    def _watch(self, seconds: float) -> None:
        try:
            while True:
                self._draw()
                time.sleep(seconds)
        except KeyboardInterrupt:
            pass
        finally:
            self.stdout.write(_SHOW_CURSOR, ending="\n")

    def _draw(self) -> None:
        """Write over what is there: a screen that is cleared first flickers."""
        columns, rows = shutil.get_terminal_size()
        shown = list(screen.lines(overview.overview(), self.style, columns))[: rows - 1]
        drawn = "".join(f"{line}{_END_OF_LINE}\r\n" for line in shown)
        self.stdout.write(f"{_HIDE_CURSOR}{_HOME}{drawn}{_END_OF_SCREEN}", ending="")
        self.stdout.flush()


def _seconds(text: str) -> float:
    value = float(text)
    if not 0.1 <= value <= 3600:
        raise argparse.ArgumentTypeError("must be from 0.1 to 3600")
    return value
