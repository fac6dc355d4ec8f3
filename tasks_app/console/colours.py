"""Colours by Django's styles: ``DJANGO_COLORS`` and ``--no-color`` mean what they always do, as does ``NO_COLOR``."""

import os
from collections.abc import Callable
from typing import TextIO

from django.core.management.color import Style, no_style

from tasks_app.states import Status

_ROLE_OF_STATUS = {
    Status.QUEUED: "HTTP_SUCCESS",
    Status.LOADING: "HTTP_NOT_MODIFIED",
    Status.RUNNING: "HTTP_NOT_MODIFIED",
    Status.CANCELLING: "WARNING",
    Status.COMPLETED: "SUCCESS",
    Status.FAILED: "ERROR",
    Status.CANCELLED: "WARNING",
}


def chosen(style: Style) -> Style:
    """Return Django's choice, or none at all where ``NO_COLOR`` asks for it."""
    return no_style() if os.environ.get("NO_COLOR") else style


def of_status(style: Style, status: str) -> Callable[[str], str]:
    """Return how a state is painted."""
    paint: Callable[[str], str] = getattr(style, _ROLE_OF_STATUS[Status(status)])
    return paint


def dim(stream: TextIO, text: str) -> str:
    """Return what stands aside from the text proper, greyed on a terminal."""
    return f"\x1b[2m{text}\x1b[22m" if stream.isatty() and not os.environ.get("NO_COLOR") else text
