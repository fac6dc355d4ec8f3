"""Figures as people read them."""

from datetime import UTC, datetime

_SPANS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))
_SIZES = ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "kB"))


def span(seconds: float | None) -> str:
    """Return a length of time: ``12 s``, ``3.5 h``; nothing for one that is not known."""
    if seconds is None:
        return ""
    for length, name in _SPANS:
        if seconds >= length:
            return f"{_short(seconds / length)} {name}"
    return f"{_short(seconds)} s"


def size(count: int) -> str:
    """Return a number of bytes: ``98 MB``."""
    for length, name in _SIZES:
        if count >= length:
            return f"{_short(count / length)} {name}"
    return f"{count} B"


def clock(moment: datetime) -> str:
    """Return a moment of today by its time, another with its date; UTC, as everywhere in this service."""
    shape = "%H:%M:%S" if moment.date() == datetime.now(UTC).date() else "%Y-%m-%d %H:%M:%S"
    return moment.strftime(shape)


def since(moment: datetime | None, until: datetime | None = None) -> float | None:
    """Return the seconds from `moment` to `until`, or to now; ``None`` where it has not come."""
    if moment is None:
        return None
    # Clocks of two processes may differ by a little.
    return max(0.0, ((until or datetime.now(UTC)) - moment).total_seconds())


def _short(value: float) -> str:
    return f"{value:.1f}" if value < 9.95 else f"{value:,.0f}"
