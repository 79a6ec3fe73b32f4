"""The database: its tables, queries, and uploads."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeVar

import psycopg
from attrs import evolve

from dlperf_postgresql.connection import (
    LOST_SECONDS,
    STATEMENT_SECONDS,
    ConnectionLost,
    connect,
    identify,
    parse_url,
    transaction,
)
from dlperf_postgresql.schema import (
    PostgresqlTables,
    create_missing,
    pack,
    stored_version,
    unpack,
    upgrade_older,
)
from dlperf_sdk.documents.credentials import name_url
from dlperf_sdk.errors import DocumentError, StoreError, UnknownName, UsageError
from dlperf_sdk.interfaces.database import Answer, DatabaseType, ResultDatabase, Version
from dlperf_sdk.results.result import Result
from dlperf_sdk.results.tables import FILES, VERSION, explain_query, read_answer

_UPGRADE_SECONDS = 24 * 3600.0
"""Time limit of an upgrade, which reads all complete results."""
_RETRY_SECONDS = (0.0, 1.0, 3.0, 6.0)
"""Waits before each try after a lost connection."""
_ROWS_AT_ONCE = 2000
"""Number of rows that the server sends before the size of the answer is checked."""
_PLAIN_TYPES = {
    psycopg.adapters.types[name].oid
    for name in ("text", "varchar", "name", "bool", "int2", "int4", "int8", "float4", "float8")
}
"""Types (their OIDs) whose values psycopg returns as an `Answer` has them."""

_Value = TypeVar("_Value")


class PostgresqlType(DatabaseType):
    """PostgreSQL, version 12 and later, at URLs such as postgresql://HOST/DATABASE."""

    name = "postgresql"

    def open(self, url: str) -> ResultDatabase:
        """Return the database at a URL that the user has given; this connects to no server yet.

        Raises:
            UsageError: The URL is not valid. The message does not contain it.
        """
        return PostgresqlDatabase(url)


class PostgresqlDatabase(ResultDatabase):
    """Results in the schema `dlperf` of a PostgreSQL database.

    The tables are those of `dlperf_sdk.results.tables`. The table `documents` has each complete result, compressed. The
    constructor does not connect.

    Args:
        url: URL of the database, such as postgresql://HOST/DATABASE.

    Raises:
        UsageError: The URL is not valid. The message does not contain it.
    """

    def __init__(self, url: str) -> None:
        self.location = name_url(url)
        self._parameters = parse_url(url)
        self.identity = identify(self._parameters)
        self._connection: psycopg.Connection | None = None

    def query(self, sql: str, largest: float = math.inf) -> Answer:
        """Run an SQL query in a read-only transaction, and return the selected rows with the names of their columns.

        Texts, truth values, integers, floating-point numbers and bytes are returned as such. Values of the type
        `numeric` become int or float, JSON and arrays become JSON text, and other types become text. NULL is None.

        Args:
            sql: The query, one statement.
            largest: Maximum memory of the selected rows in bytes.

        Raises:
            UsageError: The query is not valid, is no SELECT, selects more than `largest` bytes, takes longer than 60 s
                (`STATEMENT_SECONDS`), or would do something other than read.
            StoreError: The database cannot be used, has no results yet, or its tables are of another version.
        """
        return self._answer(lambda connection: _select(connection, sql, largest))

    def describe_tables(self) -> Answer:
        """Return a row for each column that a query can name, in the order of the tables, then of their columns.

        A row has four texts: the table, the column's name, its SQL type and its description.

        Raises:
            StoreError: The database cannot be used, has no results yet, or its tables are of another version.
        """
        return self._answer(lambda connection: PostgresqlTables(connection).describe())

    def load(self, run_id: str) -> Result:
        """Return the result of the run `run_id`, with its records.

        Raises:
            UnknownName: The database has no result of this run.
            DocumentError: The result is damaged.
            StoreError: The database cannot be used, has no results yet, or its tables are of another version.
        """
        rows = self._read(
            lambda connection: connection.execute(
                "SELECT document FROM documents WHERE id = %s", [run_id]
            ).fetchall()
        )
        if not rows:
            raise UnknownName("run", run_id[:128], (), replacement=f"{self.location} does not have it.")
        return unpack(rows[0][0], f"The result {run_id} in {self.location}")

    def versions(self, run_ids: Sequence[str]) -> Mapping[str, Version]:
        """Return a mapping from run id to the version of the stored result: when its file was changed, and its size.

        Runs of `run_ids` that the database does not have are left out. The tables are created if there are none. After
        a lost connection, this connects again and repeats the transaction, at most three times.

        Raises:
            StoreError: The database cannot be used, or its tables are not those of this version of dlperf-sdk.
        """
        rows = self._write(
            lambda connection: connection.execute(
                "SELECT id, modified, size FROM files WHERE id = ANY(%s)", [list(run_ids)]
            ).fetchall()
        )
        return {id: Version(modified, size) for id, modified, size in rows}

    def upload(self, result: Result, version: Version) -> None:
        """Write a result in one transaction, unless the database has the same or a later version of it.

        The tables are created if there are none. After a lost connection, this connects again and repeats the
        transaction, at most three times.

        Args:
            result: The result.
            version: The version of the result's file: when it was changed, and its size.

        Raises:
            DocumentError: PostgreSQL cannot hold this result, or its records cannot be read; or the result holds a
                value that JSON cannot represent.
            StoreError: The database cannot be used, or its tables are of another version.
        """
        document = pack(result)
        row = (result.id, version.modified, version.size)

        def replace(connection: psycopg.Connection) -> None:
            # The row of the id is a lock: of several uploads of one result, only that of the latest version writes.
            written = connection.execute(
                "INSERT INTO files (id, modified, size) VALUES (%s, %s, %s) ON CONFLICT (id) DO UPDATE "
                "SET modified = excluded.modified WHERE files.modified < excluded.modified",
                row,
            )
            if written.rowcount == 0:
                return
            tables = PostgresqlTables(connection)
            try:
                tables.delete([result.id])
                tables.insert_rows("files", [column.name for column in FILES], [row])
                tables.insert({result.id: result})
                tables.insert_rows("documents", ("id", "document"), [(result.id, document)])
            except (psycopg.DataError, psycopg.errors.ProgramLimitExceeded) as error:
                raise DocumentError(f"PostgreSQL cannot hold it: {error.diag.message_primary}.") from error

        self._write(replace)

    def upgrade(self) -> None:
        """Build the tables again from the complete results in the database, if an older dlperf-sdk made the tables.

        Tables of this version are left unchanged, and missing tables are created. A result that cannot be read is noted
        in the table `unreadable`.

        Raises:
            StoreError: The database cannot be used, or its tables are of a newer dlperf-sdk.
        """
        self._write(lambda connection: None, upgrade_older, _UPGRADE_SECONDS)

    def close(self) -> None:
        """Close the connection, if there is one. The next use opens a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _answer(self, work: Callable[[psycopg.Connection], Answer]) -> Answer:
        """Return an answer with the results that cannot be read."""

        def read(connection: psycopg.Connection) -> Answer:
            # First: a query can change settings of its transaction, such as where tables are looked up.
            names = PostgresqlTables(connection).list_unreadable()
            return evolve(work(connection), unreadable=tuple(f"{name} in {self.location}" for name in names))

        return self._read(read)

    def _read(self, work: Callable[[psycopg.Connection], _Value]) -> _Value:
        """Return what a function reads, in a transaction that cannot write."""
        connection = self._open()
        with transaction(connection, self.location, read_only=True):
            version = stored_version(connection)
            if version is None:
                raise StoreError(
                    f"There are no results in {self.location} yet: `dlperf upload` uploads some."
                )
            self._check(version)
            return work(connection)

    def _write(
        self,
        work: Callable[[psycopg.Connection], _Value],
        prepare: Callable[[psycopg.Connection], int] = create_missing,
        seconds: float = LOST_SECONDS,
    ) -> _Value:
        """Return what a function writes, in a transaction, which is tried again after a lost connection."""
        lost: StoreError | None = None
        for wait in _RETRY_SECONDS:
            time.sleep(wait)
            try:
                connection = self._open()
                with transaction(connection, self.location, seconds=seconds):
                    self._check(prepare(connection))
                    return work(connection)
            except StoreError as error:
                if lost is None and not isinstance(error, ConnectionLost):
                    raise
                lost = error
        assert lost is not None
        raise lost

    def _open(self) -> psycopg.Connection:
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._parameters, self.location)
        return self._connection

    def _check(self, version: int) -> None:
        if version > VERSION:
            raise StoreError(
                f"The tables in {self.location} have version {version}, and this dlperf-sdk writes version {VERSION}: "
                "upgrade dlperf-sdk and dlperf-postgresql."
            )
        if version < VERSION:
            raise StoreError(
                f"The tables in {self.location} have version {version}, and this dlperf-sdk needs version {VERSION}: "
                "`dlperf upload --upgrade` builds them again. Older versions of dlperf-sdk cannot use them then."
            )


def _select(connection: psycopg.Connection, sql: str, largest: float) -> Answer:
    """Run a query through a cursor on the server: only a query has one, and a single statement."""
    try:
        with connection.cursor(name="dlperf_query") as cursor:
            cursor.itersize = _ROWS_AT_ONCE
            cursor.execute(sql.encode())
            answer = read_answer(cursor, largest)
            types = [column.type_code for column in cursor.description or ()]
    except psycopg.errors.QueryCanceled as error:
        raise UsageError(
            f"The query was ended after {STATEMENT_SECONDS} s, or by the server's administrator: select less."
        ) from error
    except psycopg.OperationalError:
        raise
    except psycopg.Error as error:
        raise explain_query(error.diag.message_primary or str(error)) from error
    others = {i for i, kind in enumerate(types) if kind not in _PLAIN_TYPES}
    if not others:
        return answer
    plain = (
        tuple(_to_plain(value) if i in others else value for i, value in enumerate(row))
        for row in answer.rows
    )
    return Answer(answer.columns, tuple(plain))


def _to_plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value) if value.as_tuple().exponent == 0 else float(value)
    if isinstance(value, list | dict):
        return json.dumps(value, default=str)
    return value if value is None or isinstance(value, bytes) else str(value)
