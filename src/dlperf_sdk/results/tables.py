"""The tables of results in SQL, declared once for the SQLite index of a directory and for databases.

They have the columns of `TABLES`; `results` also has a column for each metric's value, interval and unit, as in
`dlperf_sdk.results.table`, in lower case.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from dlperf_sdk.errors import UsageError
from dlperf_sdk.interfaces.database import Answer
from dlperf_sdk.results.result import Result
from dlperf_sdk.results.stored_repeats import numbers_of
from dlperf_sdk.results.table import COLUMNS, TableColumn, cell, columns, rows

VERSION = 3
"""Version of the tables, increased when a column of `TABLES` or `FILES` changes."""
_MOST_COLUMNS = 800
"""Maximum number of columns of a table. SQLite's limit is 2,000; a row of PostgreSQL has at most 8 kB without texts."""
_LONGEST_NAME = 63
"""Maximum length of a column's name, which is PostgreSQL's."""

_ID = COLUMNS[0]
TABLES: dict[str, tuple[TableColumn, ...]] = {
    "results": COLUMNS,
    "repeats": (
        _ID,
        TableColumn("repeat", int, "Number of the repeat: that of its attempt, counted from 1."),
        TableColumn("metric", str, "Name of the metric."),
        TableColumn("value", float, "Value in the repeat."),
        TableColumn("unit", str, "Its unit."),
    ),
    "verdicts": (
        _ID,
        TableColumn("verdict", str, "Name of the verdict."),
        TableColumn("kind", str, "integrity or quality."),
        TableColumn("outcome", str, "pass, fail or inconclusive."),
        TableColumn("detail", str, "The sentence of the verdict."),
    ),
    "unreadable": (_ID, TableColumn("error", str, "Why the result cannot be read.")),
}
"""Tables for queries, with the columns that they always have."""
FILES = (
    _ID,
    TableColumn("modified", int, "Time of the last change of the result's file, in ns since 1970."),
    TableColumn("size", int, "Its size in bytes."),
)
"""Columns of the table `files`, which tells which version of a result the other tables have."""
_SEVERAL_PER_RESULT = ("repeats", "verdicts")
OBJECTS = {
    *(("table", name) for name in (*TABLES, "files")),
    *(("index", f"{name}_id") for name in _SEVERAL_PER_RESULT),
}
"""Type and name of all that `Tables.create` creates."""


class Tables(ABC):
    """The tables in one database. The attributes of a subclass hold the details of a kind of SQL.

    All methods raise the errors of the database's client if a statement fails.

    Args:
        connection: An open connection with the interface of Python's DB-API 2. Transactions are the caller's.
    """

    TYPES: ClassVar[Mapping[type[Any], str]]
    """Type of a column's cells → its SQL type, as `columns` returns it."""
    PLACE: ClassVar[str]
    """Placeholder of a value in a statement."""
    ADD_COLUMN: ClassVar[str] = "ADD COLUMN"
    """Clause of ALTER TABLE that adds a column."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    @abstractmethod
    def columns(self, table: str) -> dict[str, str]:
        """Return a dict from the name of each column of a table to its SQL type, in the table's order.

        The dict is empty if there is no table named `table`. Errors of the database's client are raised unchanged.
        """

    def create(self) -> None:
        """Create all tables and their indexes. None of the tables may exist.

        If one exists, the database's client raises an error of its own.
        """
        for table, described in {**TABLES, "files": FILES}.items():
            definitions = [f"{column.name} {self.TYPES[column.kind]}" for column in described]
            if table not in _SEVERAL_PER_RESULT:
                definitions.append("PRIMARY KEY (id)")
            self.connection.execute(f"CREATE TABLE {table} ({', '.join(definitions)})")
        for table in _SEVERAL_PER_RESULT:
            self.connection.execute(f"CREATE INDEX {table}_id ON {table} (id)")

    def describe(self) -> Answer:
        """Return a row for each column that a query can name: its table, name, SQL type and description.

        The columns of the answer are named `table`, `column`, `type` and `description`. Its rows are in the order of
        `TABLES`, and in the order of each table's columns. Errors of the database's client are raised unchanged.
        """
        help = {
            (table, column.name): column.help for table, described in TABLES.items() for column in described
        }
        described = [
            (table, name, kind, help.get((table, name), "Of the metric that the column is named after."))
            for table in TABLES
            for name, kind in self.columns(table).items()
        ]
        return Answer(("table", "column", "type", "description"), tuple(described))

    def list_unreadable(self) -> list[str]:
        """Return the names of the runs in the table `unreadable`, sorted.

        Errors of the database's client are raised unchanged.
        """
        return [id for (id,) in self.connection.execute("SELECT id FROM unreadable ORDER BY id")]

    def delete(self, ids: Iterable[str]) -> None:
        """Delete all rows of the runs named in `ids` from the tables in `TABLES` and from the table `files`.

        Names that no row has are ignored. Errors of the database's client are raised unchanged.
        """
        keys = [(id,) for id in ids]
        for table in (*TABLES, "files"):
            self._execute_many(f"DELETE FROM {table} WHERE id = {self.PLACE}", keys)  # noqa: S608 - our own names

    def insert(self, results: Mapping[str, Result]) -> None:
        """Insert the rows of results into `results`, `repeats` and `verdicts`; no records are read.

        Columns of metrics that the table `results` lacks are added, if their names have at most 63 characters and the
        table has fewer than 800 columns. Errors of the database's client are raised unchanged.

        Args:
            results: Name of the run → its result. None of the names may be in the tables.
        """
        described = self._add_columns(columns(results.values()))
        values = [
            (id, *(row[column.name] for column in described))
            for id, row in zip(results, rows([*results.values()]), strict=True)
        ]
        self.insert_rows("results", ["id", *(column.name.lower() for column in described)], values)
        repeats = [
            (id, repeat, cell(str, metric.name), cell(float, value), cell(str, metric.unit))
            for id, result in results.items()
            for metric in result.metrics
            if metric.repeats
            for repeat, value in zip(
                numbers_of(result.repeats, len(metric.repeats)), metric.repeats, strict=True
            )
        ]
        self.insert_rows("repeats", [column.name for column in TABLES["repeats"]], repeats)
        verdicts = [
            (id, *(cell(str, getattr(verdict, name)) for name in ("name", "kind", "outcome", "detail")))
            for id, result in results.items()
            for verdict in result.verdicts
        ]
        self.insert_rows("verdicts", [column.name for column in TABLES["verdicts"]], verdicts)

    def insert_rows(self, table: str, names: Iterable[str], values: Iterable[tuple[Any, ...]]) -> None:
        """Insert rows into a table. Errors of the database's client are raised unchanged.

        Args:
            table: Name of the table, one of `TABLES` or `files`.
            names: Names of the columns to set; the others are null.
            values: The rows, each with one value per column of `names`.
        """
        quoted = [f'"{name}"' for name in names]
        places = ", ".join([self.PLACE] * len(quoted))
        self._execute_many(
            f"INSERT INTO {table} ({', '.join(quoted)}) VALUES ({places})",  # noqa: S608 - identifiers
            values,
        )

    def _add_columns(self, described: Iterable[TableColumn]) -> list[TableColumn]:
        """Add the columns that the table of results lacks, and return those besides the id that it has now.

        Names that differ in case only are one to SQL: the first has the column. Some metrics have no columns: those
        with very long names, and the last if there are more than a table can have. All are in the table of repeats.
        """
        present = self.columns("results")
        used, usable = {"id"}, []
        for column in described:
            name, kind = column.name.lower(), self.TYPES[column.kind]
            if name not in present and len(present) < _MOST_COLUMNS and len(name) <= _LONGEST_NAME:
                self.connection.execute(f'ALTER TABLE results {self.ADD_COLUMN} "{name}" {kind}')
                present[name] = kind
            if present.get(name) == kind and name not in used:
                used.add(name)
                usable.append(column)
        return usable

    def _execute_many(self, statement: str, values: Iterable[tuple[Any, ...]]) -> None:
        self.connection.cursor().executemany(statement, values)


def read_answer(cursor: Any, largest: float) -> Answer:
    """Return the rows that a query selected, with the names of their columns; read the cursor to its end.

    The rows are in the query's order. Errors of the database's client while rows are read are raised unchanged.

    Args:
        cursor: The query's cursor of DB-API 2, which can be iterated over.
        largest: Maximum memory of the rows in bytes; `math.inf` for no limit.

    Raises:
        UsageError: The query is no SELECT, or selects more than `largest` bytes.
    """
    if cursor.description is None:
        raise UsageError("The query selects nothing; write, for example, SELECT * FROM results.")
    selected = cursor if largest == math.inf else _limit_rows(cursor, largest)
    return Answer(tuple(column[0] for column in cursor.description), tuple(selected))


def _limit_rows(rows: Iterable[tuple[Any, ...]], largest: float) -> Iterator[tuple[Any, ...]]:
    size = 0
    for row in rows:
        size += sys.getsizeof(row) + sum(map(sys.getsizeof, row))
        if size > largest:
            raise UsageError(
                f"The query selects more than {largest / 2**20:.0f} MiB; select fewer columns, or add a condition or "
                "LIMIT."
            )
        yield row


def explain_query(reason: str) -> UsageError:
    """Return the error for a query that the database refused; `reason` is the database's own message."""
    short = " ".join(reason.split()).rstrip(".")
    return UsageError(
        f"The query failed: {short}. `dlperf query` without a query shows the tables and their columns."
    )
