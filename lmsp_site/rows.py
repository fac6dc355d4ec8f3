"""Rows as the ORM writes and reads them, with statements that are made once: it makes them anew for each call.

For what every request does. The statement costs several times what SQLite needs to carry it out.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar

from django.db import connection, models
from django.db.models.expressions import DatabaseDefault

M = TypeVar("M", bound=models.Model)

# Values of exactly these types are stored as they are, whatever a field's class makes of others.
_AS_THEY_ARE = {
    "CharField": str,
    "TextField": str,
    "BinaryField": bytes,
    "IntegerField": int,
    "BigIntegerField": int,
    "PositiveIntegerField": int,
    "PositiveBigIntegerField": int,
    "PositiveSmallIntegerField": int,
}


def insert(row: models.Model) -> None:
    """Insert a new row. What is left to the database's defaults is not read back."""
    values: list[Any] = []
    names: list[str] = []
    for name, column, plain, prepare in _writing(type(row)):
        value = getattr(row, name)
        if isinstance(value, DatabaseDefault):
            continue
        names.append(column)
        values.append(value if value is None or type(value) is plain else prepare(value, connection))
    with connection.cursor() as cursor:
        cursor.execute(_statement(row._meta.db_table, tuple(names)), values)
    row._state.adding, row._state.db = False, connection.alias


def select(model: type[M], condition: str, values: Sequence[Any]) -> list[M]:
    """Return the rows that meet a condition.

    Args:
        model: whose rows.
        condition: SQL after ``WHERE``, with ``%s`` for each value; a constant of the code.
        values: as the database has them.
    """
    reading = _reading(model)
    found = []
    with connection.cursor() as cursor:
        columns = ", ".join(reading.columns)
        cursor.execute(f"SELECT {columns} FROM {reading.table} WHERE {condition}", values)  # noqa: S608
        for row in cursor.fetchall():
            read = list(row)
            for at, convert in reading.converters.items():
                read[at] = convert(read[at])
            found.append(model.from_db(connection.alias, reading.names, read))
    return found


def value(model: type[models.Model], name: str, condition: str, values: Sequence[Any]) -> Any:
    """Return one field of the first row that meets a condition; see ``select``.

    Raises:
        LookupError: there is no such row.
    """
    reading = _reading(model)
    at = reading.names.index(name)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {reading.columns[at]} FROM {reading.table} WHERE {condition}", values)  # noqa: S608
        row = cursor.fetchone()
    if row is None:
        raise LookupError(f"There is no {model._meta.verbose_name} of which this is true: {condition}")
    convert = reading.converters.get(at)
    return convert(row[0]) if convert else row[0]


class _Column(NamedTuple):
    name: str
    column: str
    plain: type | None
    prepare: Callable[[Any, Any], Any]


class _Reading(NamedTuple):
    table: str
    columns: list[str]
    names: list[str]
    converters: dict[int, Callable[[Any], Any]]


@cache
def _writing(model: type[models.Model]) -> list[_Column]:
    return [
        _Column(field.attname, field.column, _AS_THEY_ARE.get(_stored_as(field)), field.get_db_prep_save)
        for field in model._meta.concrete_fields
    ]


def _stored_as(field: Any) -> str:
    """Return the kind of the values of a field; a foreign key has those of what it refers to."""
    return str((field.target_field if field.is_relation else field).get_internal_type())


@cache
def _reading(model: type[models.Model]) -> _Reading:
    fields = model._meta.concrete_fields
    quote = connection.ops.quote_name
    return _Reading(
        quote(model._meta.db_table),
        [quote(field.column) for field in fields],
        [field.attname for field in fields],
        {at: convert for at, field in enumerate(fields) if (convert := _converter(field))},
    )


def _converter(field: Any) -> Callable[[Any], Any] | None:
    """Return what makes a field's value of the database's, as the ORM does; None where that is nothing."""
    expression = field.get_col(field.model._meta.db_table)
    steps = [*connection.ops.get_db_converters(expression), *field.get_db_converters(connection)]
    if not steps:
        return None

    def convert(value: Any) -> Any:
        for step in steps:
            value = step(value, expression, connection)
        return value

    return convert


@cache
def _statement(table: str, columns: tuple[str, ...]) -> str:
    quote = connection.ops.quote_name
    names = ", ".join(map(quote, columns))
    return f"INSERT INTO {quote(table)} ({names}) VALUES ({', '.join(['%s'] * len(columns))})"  # noqa: S608
