"""Log lines that people and programs can both read: one record, one line, on standard error.

The processes of a service also write them to a file, which ``serve`` names to them by an environment variable.

Every line has ``time`` (UTC), ``level``, ``logger`` and ``event``, the message. What a caller passes as ``extra``
follows under its own name; ``extra={"task": task.id}`` is how a line says which task it is about.

Nothing that looks like a token of a client gets into a line, whoever wrote it; nor what a request carries beside its
path.
"""

import json
import logging
import logging.config
import math
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lmsp_site import log_file

# What every record carries by itself; anything else on a record was given as ``extra``.
_STANDARD_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


# A client's token, whole or cut short (``clients_app/tokens.py``); ids have other prefixes, metrics no capital letters.
_TOKEN = re.compile(r"lmsp_(?=[\w-]*[A-Z0-9-])[\w-]{16,}")


class JSONFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a line, without its newline."""
        return _without_tokens(_one_line(self.fields(record)))

    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        """Return what the line says, in the order in which it says it."""
        fields: dict[str, Any] = {
            "time": _timestamp(record.created),
            "level": record.levelname,
            "logger": record.name,
            "event": record.getMessage(),
        }
        for name, value in vars(record).items():
            if name not in _STANDARD_ATTRIBUTES:
                # An extra never hides what every line has.
                fields[f"{name}_" if name in fields else name] = _plain(value)
        if record.exc_info and record.exc_info[0]:
            fields["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            fields["stack"] = self.formatStack(record.stack_info)
        return fields


class KeyValueFormatter(JSONFormatter):
    """``key=value`` pairs; a value that is not one plain word is written as a JSON string."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a line, without its newline."""
        return _without_tokens(" ".join(f"{name}={_word(value)}" for name, value in self.fields(record).items()))


# Answers by which the service says that it cannot take a call now: its own lines say why, once and not for each caller.
_REFUSALS = (503, 507)


class Unexpected(logging.Filter):
    """Passes over calls that were refused on purpose, which Django logs as errors."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether the record is to be written."""
        return getattr(record, "status_code", None) not in _REFUSALS


# ``serve`` sets it, for its children: the file's name and the bytes after which it is renamed, with a colon between.
FILE_VARIABLE = "LMSP_LOG_FILE"
FORMATTERS = {"keyvalue": KeyValueFormatter, "json": JSONFormatter}


def configuration(log_format: str, level: str) -> dict[str, Any]:
    """Return the value of Django's ``LOGGING``.

    With ``FILE_VARIABLE`` in the environment, lines go to that file as well.

    Args:
        log_format: ``keyvalue`` or ``json``.
        level: the least severe level that is written, by its name.
    """
    handlers: dict[str, dict[str, Any]] = {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}}
    path, _, most_bytes = os.environ.get(FILE_VARIABLE, "").rpartition(":")
    if path:
        handlers["file"] = {
            "class": "lmsp_site.log_file.LogFileHandler",
            "formatter": "line",
            "path": path,
            "most_bytes": int(most_bytes),
        }
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": {"()": FORMATTERS[log_format]}},
        "filters": {"unexpected": {"()": Unexpected}},
        "handlers": handlers,
        "root": {"level": level, "handlers": list(handlers)},
        "loggers": {
            # Django gives this logger handlers of its own, which would write every line a second time.
            "django": {"handlers": [], "propagate": True},
            "django.request": {"filters": ["unexpected"]},
            # It reports each connection at INFO.
            "daphne": {"level": "WARNING"},
        },
    }


def to_file(path: Path, most_bytes: int) -> None:
    """Have this process and those that it starts write their lines to a file as well; 0 bytes: to none."""
    if not most_bytes:
        return
    os.environ[FILE_VARIABLE] = f"{path}:{most_bytes}"
    root = logging.getLogger()
    handler = log_file.LogFileHandler(str(path), most_bytes)
    handler.setFormatter(root.handlers[0].formatter if root.handlers else None)
    root.addHandler(handler)


def configure() -> None:
    """Set up logging in a process that runs without Django, by the same environment variables."""
    log_format = os.environ.get("LMSP_LOG_FORMAT") or "keyvalue"
    logging.config.dictConfig(configuration(log_format, os.environ.get("LMSP_LOG_LEVEL") or "INFO"))


def _timestamp(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _plain(value: Any) -> str | float | bool | None:
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    # Django's requests, which its own lines carry, show their query: people put tokens and worse there.
    if (path := getattr(value, "path", None)) is not None and (method := getattr(value, "method", None)) is not None:
        return f"{method} {path}"
    return str(value)


def _without_tokens(line: str) -> str:
    return _TOKEN.sub("lmsp_[token]", line)


def _word(value: Any) -> str:
    if isinstance(value, str) and value and value.isprintable() and not set(value) & set(' "=\\'):
        return value
    return _one_line(value)


def _one_line(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    # JSON escapes the newlines of ASCII alone; Unicode has more, and terminals obey more control characters.
    return text if text.isprintable() else json.dumps(value)
