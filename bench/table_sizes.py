"""How many bytes each table of a database takes, its indexes included."""

import sqlite3
from contextlib import closing
from pathlib import Path

ALL = "all tables"
"""What stands for the tables where SQLite cannot tell them apart."""

_BY_TABLE = """
    SELECT coalesce(tbl_name, 'sqlite_schema'), sum(pgsize)
    FROM dbstat LEFT JOIN sqlite_schema USING (name) GROUP BY 1
"""
_IN_USE = (
    "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
)


def read(database: Path) -> dict[str, int]:
    """Return the bytes of the pages of each table, as the last commit has left them, in the write-ahead log too.

    Where SQLite was compiled without its table ``dbstat``, there is one sum under `ALL`.
    """
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True, timeout=20)) as connection:
        try:
            return dict(connection.execute(_BY_TABLE))
        except sqlite3.OperationalError as error:
            if "no such table: dbstat" not in str(error):
                raise
            return {ALL: connection.execute(_IN_USE).fetchone()[0]}


def grown(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """Return by how many bytes each table has grown, those that have, the most first."""
    differences = {name: size - before.get(name, 0) for name, size in after.items()}
    return dict(sorted(((name, by) for name, by in differences.items() if by), key=lambda entry: -entry[1]))
