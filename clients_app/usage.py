"""When a client was last seen: for people to look at, and never in the way of a call."""

import logging
import sqlite3
from contextlib import closing
from datetime import timedelta

from django.conf import settings
from django.db import connection
from django.utils import timezone

from clients_app.models import Client

logger = logging.getLogger(__name__)

INTERVAL = timedelta(minutes=1)
_UPDATE = (
    "UPDATE clients SET last_used_at = :now WHERE id = :id"
    " AND (last_used_at IS NULL OR last_used_at NOT BETWEEN :minute_ago AND :now)"
)


def note(client: Client) -> None:
    """Write down that a call has come with the token of `client`, unless that was done within the last minute.

    It waits for nobody: neither for the lock, since where another has it the next call tries again, nor for the disk,
    since a power cut may take it back.
    """
    now = timezone.now()
    # A clock that was set back leaves a time in the future.
    if client.last_used_at and now - INTERVAL <= client.last_used_at <= now:
        return
    adapt = connection.ops.adapt_datetimefield_value
    values = {"id": client.pk, "now": adapt(now), "minute_ago": adapt(now - INTERVAL)}
    try:
        address = f"{settings.LMSP.database.as_uri()}?mode=rw"
        with closing(sqlite3.connect(address, timeout=0, uri=True, isolation_level=None)) as own:
            # Nor does it bring the log's pages home for others.
            own.execute("PRAGMA synchronous=NORMAL")
            own.execute("PRAGMA wal_autocheckpoint=0")
            own.execute(_UPDATE, values)
    except sqlite3.Error as error:
        logger.debug("last use not noted", extra={"client": client.pk, "error": str(error)})
