"""Triggers by which the database itself refuses what must not be: made by migrations, for each database vendor."""

from collections.abc import Iterator, Mapping

from django.db import connection
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


class Triggers:
    """Some triggers, by name.

    Args:
        sqlite: what stands behind ``CREATE TRIGGER name``, for SQLite.
    """

    def __init__(self, sqlite: Mapping[str, str]) -> None:
        self._sqlite = sqlite
        self.names = tuple(sqlite)

    def install(self, _apps: object, editor: BaseDatabaseSchemaEditor) -> None:
        """Create every trigger that is missing; a migration operation."""
        for name, body in self._statements(editor.connection.vendor):
            editor.execute(f"CREATE TRIGGER IF NOT EXISTS {name} {body}")

    def drop(self, _apps: object, editor: BaseDatabaseSchemaEditor) -> None:
        """Remove every trigger; a migration operation, to be followed by ``install``."""
        for name, _ in self._statements(editor.connection.vendor):
            editor.execute(f"DROP TRIGGER IF EXISTS {name}")

    def missing(self) -> list[str]:
        """Return the names of triggers that the database does not have."""
        with connection.cursor() as cursor:
            cursor.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
            present = {name for (name,) in cursor.fetchall()}
        return [name for name in self.names if name not in present]

    def _statements(self, vendor: str) -> Iterator[tuple[str, str]]:
        if vendor != "sqlite":
            raise NotImplementedError(f"There are no guards for {vendor} yet; see docs/decisions.")
        yield from self._sqlite.items()
