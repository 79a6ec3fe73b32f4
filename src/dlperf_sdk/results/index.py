"""An SQLite index of the results in a store, so that many of them can be queried at once.

The index is derived from the results. It is updated before each query, and built again if it is missing, damaged
or of another version. It is in the user's cache, not in the store: SQLite trusts the files beside a database, and one
that came with somebody else's store could remove other files, or show results that the store does not have. Its
tables have the columns of `TABLES`; `results` also has a column for each metric's value, interval and unit, as in
`dlperf_sdk.results.table`.
"""

from __future__ import annotations

import hashlib
import math
import os
import sqlite3
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from attrs import frozen

from dlperf_sdk.errors import DlperfError, StoreError, UsageError
from dlperf_sdk.folders import private_cache
from dlperf_sdk.results.result import Result
from dlperf_sdk.results.store import ResultStore
from dlperf_sdk.results.table import COLUMNS, TableColumn, Value, columns, rows

VERSION = 2
"""Version of the index's tables. An index of another version is built again."""
_BUSY_SECONDS = 60.0
"""Seconds that one writer waits for another."""
_STEPS_BETWEEN_SIGNALS = 1_000_000
"""SQLite's instructions between two points at which Python can handle a signal; some milliseconds."""
_MOST_COLUMNS = 1500
"""Maximum number of columns of a table; SQLite's own limit is 2,000."""
_BATCH = 500
"""Number of results that are in memory at the same time."""
_LONGEST_VALUE = 16 * 2**20
"""Maximum length of a text that a query computes, in bytes."""

_ID = COLUMNS[0]
TABLES: dict[str, tuple[TableColumn, ...]] = {
    "results": COLUMNS,
    "repeats": (
        _ID,
        TableColumn("repeat", int, "Number of the repeat, counted from 1."),
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
"""Tables of the index, with the columns that they always have."""
_FILES = "CREATE TABLE files (id TEXT PRIMARY KEY, modified INTEGER, size INTEGER)"
_SQL_TYPES = {str: "TEXT", int: "INTEGER", float: "REAL", bool: "INTEGER"}


@frozen
class Answer:
    """Rows that a query selects, with the names of their columns."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]


def query(store: ResultStore, sql: str, largest: float = math.inf) -> Answer:
    """Run an SQL query on the results of a store, and return the selected rows.

    The query can only read the tables of the index, which `describe_tables` lists. The index file in the user's cache
    is created or updated first; if the cache cannot be written, an index in memory is used instead.

    Args:
        store: The results.
        sql: The query.
        largest: Maximum memory of the selected rows in bytes.

    Raises:
        UsageError: the query is not valid, selects nothing or more than `largest`, or would do something other than
            read these tables.
        StoreError: the store is no directory or cannot be read, or its index cannot be used.
        KeyboardInterrupt: a signal ended the query.
    """
    with closing(_updated_index(store)) as index:
        index.set_authorizer(_allow_reading)
        index.set_progress_handler(lambda: None, _STEPS_BETWEEN_SIGNALS)
        index.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
        try:
            cursor = index.execute(sql)
            if cursor.description is None:
                raise UsageError("The query selects nothing; write, for example, SELECT * FROM results.")
            names = tuple(name for name, *_ in cursor.description)
            return Answer(names, tuple(_limit_rows(cursor, largest)))
        except (sqlite3.Error, sqlite3.Warning) as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
                raise KeyboardInterrupt from error  # SQLite has taken the signal handler's exception for its own
            raise UsageError(
                f"The query failed: {error}. `dlperf query` without a query shows the tables and their columns."
            ) from error


def describe_tables(store: ResultStore) -> Answer:
    """Return a row for each column that a query can name: its table, name, SQL type and description.

    The index file is created or updated first, as in `query`.

    Raises:
        StoreError: the store is no directory or cannot be read, or its index cannot be used.
    """
    help = {(table, column.name): column.help for table, described in TABLES.items() for column in described}
    with closing(_updated_index(store)) as index:
        described = [
            (table, name, kind, help.get((table, name), "Of the metric that the column is named after."))
            for table in TABLES
            for _, name, kind, *_ in index.execute(f"PRAGMA table_info({table})")
        ]
    return Answer(("table", "column", "type", "description"), tuple(described))


def _allow_reading(action: int, first: str | None, second: str | None, *_: Any) -> int:
    if action == sqlite3.SQLITE_FUNCTION:
        return sqlite3.SQLITE_DENY if second == "load_extension" else sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_READ and first == "files":
        return sqlite3.SQLITE_DENY
    reading = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE)
    return sqlite3.SQLITE_OK if action in reading else sqlite3.SQLITE_DENY


def _limit_rows(rows: Iterable[tuple[Value, ...]], largest: float) -> Iterator[tuple[Value, ...]]:
    size = 0
    for row in rows:
        size += sys.getsizeof(row) + sum(map(sys.getsizeof, row))
        if size > largest:
            raise UsageError(
                f"The query selects more than {largest / 2**20:.0f} MiB; select fewer columns, or add a condition or "
                "LIMIT."
            )
        yield row


def index_path(store: ResultStore) -> Path | None:
    """Return the path of a store's index in the user's cache; None if the cache cannot be written."""
    folder = private_cache("indexes")
    place = os.fsencode(store.directory.resolve())
    return folder and folder / f"{hashlib.sha256(place).hexdigest()[:32]}.sqlite"


def _updated_index(store: ResultStore) -> sqlite3.Connection:
    """Open the store's index and bring it up to date; in memory where the cache cannot be written."""
    path = index_path(store)
    if not store.directory.is_dir():
        raise StoreError(f"There are no results in {store.directory}: it is no directory.")
    for attempt in range(2):
        index: sqlite3.Connection | None = None
        try:
            index = _open(":memory:" if path is None else str(path))
            _update(index, store)
            return index
        except sqlite3.DatabaseError as error:
            if index is not None:
                index.close()
            if path is None or attempt or "locked" in str(error):
                raise StoreError(
                    f"The index {path} cannot be used: {error}. Remove it, and try again."
                ) from error
            path.unlink(missing_ok=True)  # damaged: it is built again
    raise AssertionError


def _open(place: str) -> sqlite3.Connection:
    """Open a database that holds exactly our tables; raises DatabaseError for any other."""
    index = sqlite3.connect(place, timeout=_BUSY_SECONDS, isolation_level=None)
    try:
        index.execute("PRAGMA trusted_schema = OFF")
        index.execute("BEGIN IMMEDIATE")
        names = set(index.execute("SELECT type, name FROM sqlite_master WHERE sql NOT NULL"))
        if not names:
            _create(index)
        elif names != {("table", name) for name in (*TABLES, "files")} or _version(index) != VERSION:
            raise sqlite3.DatabaseError("it is no index of this version")
        index.execute("COMMIT")
    except sqlite3.Error:
        index.close()
        raise
    return index


def _create(index: sqlite3.Connection) -> None:
    for table, described in TABLES.items():
        definitions = ", ".join(f"{column.name} {_SQL_TYPES[column.kind]}" for column in described)
        key = ", PRIMARY KEY (id)" if table in ("results", "unreadable") else ""
        index.execute(f"CREATE TABLE {table} ({definitions}{key})")
    index.execute(_FILES)
    index.execute(f"PRAGMA user_version = {VERSION}")


def _version(index: sqlite3.Connection) -> int:
    (version,) = index.execute("PRAGMA user_version").fetchone()
    return int(version)


def _update(index: sqlite3.Connection, store: ResultStore) -> None:
    """Take in what is new or changed, and drop what is gone, in one transaction."""
    files = dict(_result_files(store.directory))
    index.execute("BEGIN IMMEDIATE")
    try:
        known = {id: (modified, size) for id, modified, size in index.execute("SELECT * FROM files")}
        changed = [id for id, stamp in files.items() if known.get(id) != stamp]
        _delete(index, [*(known.keys() - files.keys()), *(known.keys() & set(changed))])
        for start in range(0, len(changed), _BATCH):
            _insert(index, store, {id: files[id] for id in changed[start : start + _BATCH]})
    except BaseException:
        index.execute("ROLLBACK")
        raise
    index.execute("COMMIT")


def _result_files(directory: Path) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the name of each run with a result, and its file's time of change in ns and size in bytes."""
    try:
        with os.scandir(directory) as entries:
            names = [entry.name for entry in entries if not entry.name.startswith(".")]
    except OSError as error:
        raise StoreError(f"The results in {directory} cannot be read: {error.strerror}.") from error
    prefix = os.fspath(directory)
    for name in names:
        with suppress(OSError):
            status = os.stat(f"{prefix}/{name}/result.json")  # noqa: PTH116 - a Path for each of 100,000 takes a second
            yield name, (status.st_mtime_ns, status.st_size)


def _delete(index: sqlite3.Connection, ids: Iterable[str]) -> None:
    keys = [(id,) for id in ids]
    for table in (*TABLES, "files"):
        index.executemany(f"DELETE FROM {table} WHERE id = ?", keys)  # noqa: S608 - our own names


def _insert(index: sqlite3.Connection, store: ResultStore, files: dict[str, tuple[int, int]]) -> None:
    results: dict[str, Result] = {}
    for id in files:
        try:
            results[id] = store.load(store.directory / id)
        except DlperfError as error:
            _insert_rows(index, "unreadable", ("id", "error"), [(id, str(error))])
    _insert_results(index, results)
    _insert_rows(index, "files", ("id", "modified", "size"), [(id, *stamp) for id, stamp in files.items()])


def _insert_results(index: sqlite3.Connection, results: dict[str, Result]) -> None:
    described = _add_columns(index, columns(results.values()))
    case_rows = rows([*results.values()])
    values = [
        (id, *(row[column.name] for column in described)) for id, row in zip(results, case_rows, strict=True)
    ]
    _insert_rows(index, "results", ["id", *(column.name for column in described)], values)
    repeats = [
        (id, repeat, metric.name, float(value), metric.unit)
        for id, result in results.items()
        for metric in result.metrics
        for repeat, value in enumerate(metric.repeats or (), 1)
    ]
    _insert_rows(index, "repeats", [column.name for column in TABLES["repeats"]], repeats)
    verdicts = [
        (id, verdict.name, verdict.kind, verdict.outcome, verdict.detail)
        for id, result in results.items()
        for verdict in result.verdicts
    ]
    _insert_rows(index, "verdicts", [column.name for column in TABLES["verdicts"]], verdicts)


def _add_columns(index: sqlite3.Connection, described: Iterable[TableColumn]) -> list[TableColumn]:
    """Add the columns that the table of results lacks, and return those besides the id that it has now.

    Names that differ in case only are one to SQL: the first has the column. If there are more metrics than a
    table can have, the first have columns. All metrics are in the table of repeats.
    """
    used = {name.lower(): name for name in _column_names(index, "results")}
    present = []
    for column in described:
        if column.name.lower() not in used and len(used) < _MOST_COLUMNS:
            index.execute(f'ALTER TABLE results ADD COLUMN "{column.name}" {_SQL_TYPES[column.kind]}')
            used[column.name.lower()] = column.name
        if used.get(column.name.lower()) == column.name and column.name != "id":
            present.append(column)
    return present


def _insert_rows(
    index: sqlite3.Connection, table: str, names: Iterable[str], values: Iterable[tuple[Value, ...]]
) -> None:
    quoted = [f'"{name}"' for name in names]
    places = ", ".join("?" * len(quoted))
    index.executemany(
        f"INSERT OR REPLACE INTO {table} ({', '.join(quoted)}) VALUES ({places})",  # noqa: S608 - identifiers
        values,
    )


def _column_names(index: sqlite3.Connection, table: str) -> list[str]:
    return [name for _, name, *_ in index.execute(f"PRAGMA table_info({table})")]
