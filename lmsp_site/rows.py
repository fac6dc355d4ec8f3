"""Inserting a row as the ORM does, with a statement that is made once: ``save`` makes it anew for each."""

from functools import cache
from typing import Any

from django.db import connection, models
from django.db.models.expressions import DatabaseDefault


def insert(row: models.Model) -> None:
    """Insert a new row. What is left to the database's defaults is not read back."""
    values: list[Any] = []
    names: list[str] = []
    for field in row._meta.concrete_fields:
        value = getattr(row, field.attname)
        if not isinstance(value, DatabaseDefault):
            names.append(field.column)
            values.append(field.get_db_prep_save(value, connection))
    with connection.cursor() as cursor:
        cursor.execute(_statement(row._meta.db_table, tuple(names)), values)
    row._state.adding, row._state.db = False, connection.alias


@cache
def _statement(table: str, columns: tuple[str, ...]) -> str:
    quote = connection.ops.quote_name
    names = ", ".join(map(quote, columns))
    return f"INSERT INTO {quote(table)} ({names}) VALUES ({', '.join(['%s'] * len(columns))})"  # noqa: S608
