"""What an operator sets by environment variable, read once per process."""

import ipaddress
import os
import re
from dataclasses import dataclass
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

REPOSITORY = Path(__file__).resolve().parent.parent

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# As Django has it: a name, one with a dot in front of it for all below it, or an IPv6 address in brackets.
_HOST_NAME = re.compile(r"\.?[\w-]+(\.[\w-]+)*|\[[0-9a-fA-F:.]+\]")
_ORIGIN = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://[^/?#\s*]+")


@dataclass(frozen=True)
class Configuration:
    """Settings of one service; the data directory holds everything that outlives a process."""

    data_dir: Path
    host: str
    port: int
    allowed_hosts: tuple[str, ...]
    allowed_origins: tuple[str, ...]
    trusted_proxies: tuple[Network, ...]
    max_running: int
    context_length: int
    engine_threads: int
    prefix_bytes: int
    checkpoint_tokens: int
    engine_silence: float
    shutdown_grace: float
    max_body_bytes: int
    max_headers: int
    max_header_bytes: int
    slow_request_seconds: float
    min_free_bytes: int
    slow_reader_seconds: float
    socket_minutes: float
    verify_hours: float
    log_format: str
    log_level: str
    log_file_bytes: int

    @property
    def run_dir(self) -> Path:
        """Locks and sockets: nothing in it outlives the processes that made it."""
        return self.data_dir / "run"

    @property
    def models_dir(self) -> Path:
        """Model files, which never enter the database."""
        return self.data_dir / "models"

    @property
    def checkpoints_dir(self) -> Path:
        """Caches of unfinished generations: whatever is lost of them costs time alone."""
        return self.data_dir / "checkpoints"

    @property
    def log_file(self) -> Path:
        """What the service's processes log, beside standard error."""
        return self.data_dir / "logs" / "service.log"

    @property
    def database(self) -> Path:
        """The SQLite database."""
        return self.data_dir / "db.sqlite3"


def _number(name: str, default: float, least: float, most: float) -> float:
    text = os.environ.get(name, "")
    try:
        value = float(text) if text else default
    except ValueError:
        value = least - 1
    if not least <= value <= most:
        raise ImproperlyConfigured(f"{name} must be a number from {least:g} to {most:g}, not {text!r}.")
    return value


def _choice(name: str, *choices: str) -> str:
    value = os.environ.get(name) or choices[0]
    if value not in choices:
        raise ImproperlyConfigured(f"{name} must be one of {', '.join(choices)}, not {value!r}.")
    return value


def _list(name: str) -> tuple[str, ...]:
    return tuple(entry.strip() for entry in os.environ.get(name, "").split(",") if entry.strip())


def _names(name: str, pattern: re.Pattern[str], wanted: str) -> tuple[str, ...]:
    """Read a list whose entries are each what `pattern` says; a star is none: it would let any web page in."""
    entries = _list(name)
    for entry in entries:
        if not pattern.fullmatch(entry):
            raise ImproperlyConfigured(f"{name} holds {entry!r}; name each {wanted}.")
    return entries


def _networks(name: str) -> tuple[Network, ...]:
    try:
        return tuple(ipaddress.ip_network(entry) for entry in _list(name))
    except ValueError as error:
        raise ImproperlyConfigured(f"{name} holds addresses and networks, such as 127.0.0.1: {error}.") from None


def from_environment() -> Configuration:
    """Read the configuration.

    Raises:
        ImproperlyConfigured: a variable holds something that cannot be meant; the message names it.
    """
    return Configuration(
        data_dir=Path(os.environ.get("LMSP_DATA_DIR") or REPOSITORY / "var").expanduser().absolute(),
        host=os.environ.get("LMSP_HOST") or "127.0.0.1",
        port=int(_number("LMSP_PORT", 8000, 1, 65535)),
        allowed_hosts=_names("LMSP_ALLOWED_HOSTS", _HOST_NAME, "host, without a port, such as lmsp.example"),
        allowed_origins=_names("LMSP_ALLOWED_ORIGINS", _ORIGIN, "origin, such as https://app.example"),
        trusted_proxies=_networks("LMSP_TRUSTED_PROXIES"),
        max_running=int(_number("LMSP_MAX_RUNNING", 4, 1, 64)),
        context_length=int(_number("LMSP_CONTEXT_LENGTH", 8192, 128, 1 << 20)),
        engine_threads=int(_number("LMSP_ENGINE_THREADS", 0, 0, 256)),
        prefix_bytes=int(_number("LMSP_PREFIX_CACHE_MB", 128, 0, 1 << 20)) << 20,
        checkpoint_tokens=int(_number("LMSP_CHECKPOINT_TOKENS", 256, 0, 1 << 20)),
        engine_silence=_number("LMSP_ENGINE_SILENCE", 300, 0, 86400),
        shutdown_grace=_number("LMSP_SHUTDOWN_GRACE", 10, 0, 3600),
        max_body_bytes=int(_number("LMSP_MAX_BODY_MB", 16, 1, 1024)) << 20,
        max_headers=int(_number("LMSP_MAX_HEADERS", 100, 10, 1000)),
        max_header_bytes=int(_number("LMSP_MAX_HEADER_KB", 16, 4, 1024)) << 10,
        slow_request_seconds=_number("LMSP_SLOW_REQUEST_SECONDS", 20, 1, 86400),
        min_free_bytes=int(_number("LMSP_MIN_FREE_MB", 64, 0, 1 << 20)) << 20,
        slow_reader_seconds=_number("LMSP_SLOW_READER_SECONDS", 60, 1, 86400),
        socket_minutes=_number("LMSP_SOCKET_MINUTES", 60, 0.01, 1440),
        verify_hours=_number("LMSP_VERIFY_HOURS", 0, 0, 8760),
        log_format=_choice("LMSP_LOG_FORMAT", "keyvalue", "json"),
        log_level=_choice("LMSP_LOG_LEVEL", "INFO", "DEBUG", "WARNING", "ERROR"),
        log_file_bytes=int(_number("LMSP_LOG_FILE_MB", 10, 0, 1 << 20) * (1 << 20)),
    )
