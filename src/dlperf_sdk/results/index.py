"""An SQLite index of the results in a directory, so that many of them can be queried at once.

The index is derived from the results. It is updated before each query, and built again if it is missing, damaged
or of another version. It is in the user's cache, not in the store: SQLite trusts the files beside a database, and one
that came with somebody else's store could remove other files, or show results that the store does not have. Its
tables are those of `dlperf_sdk.results.tables`.
"""

from __future__ import annotations

import hashlib
import math
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from attrs import evolve

from dlperf_sdk.errors import DlperfError, StoreError
from dlperf_sdk.folders import follow_links, private_cache
from dlperf_sdk.interfaces.database import Answer, Store, Version
from dlperf_sdk.results.result import Result
from dlperf_sdk.results.run_places import explain_absence, refuse_campaign, refuse_only_campaigns
from dlperf_sdk.results.store import ResultStore
from dlperf_sdk.results.tables import FILES, OBJECTS, VERSION, Tables, explain_query, read_answer

_BUSY_SECONDS = 60.0
"""Seconds that one writer waits for another."""
_STEPS_BETWEEN_SIGNALS = 1_000_000
"""SQLite's instructions between two points at which Python can handle a signal; some milliseconds."""
_BATCH = 500
"""Number of results that are in memory at the same time."""
_LONGEST_VALUE = 16 * 2**20
"""Maximum length of a text that a query computes, in bytes."""


class Index(Store):
    """The results of a directory as a store that answers queries.

    The index file in the user's cache is created or updated before each query; if the cache cannot be written, an index
    in memory is used instead. The directory itself is never written.

    Args:
        results: The store of the directory; the directory need not exist yet.
    """

    def __init__(self, results: ResultStore) -> None:
        self.results = results
        self.location = str(results.directory)

    def query(self, sql: str, largest: float = math.inf) -> Answer:
        """Update the index, run an SQL query on it, and return the selected rows with the names of their columns.

        A query can only read.

        Args:
            sql: The query.
            largest: Maximum memory of the selected rows in bytes.

        Raises:
            UsageError: The query is not valid, is no SELECT, selects more than `largest` bytes, or would do something
                other than read.
            StoreError: The store's directory does not exist, cannot be read, is that of a campaign, or has campaigns
                and no result of its own. Or the index cannot be used. Or the store is empty and the query not valid.
            KeyboardInterrupt: A signal ended the query.
        """
        with closing(_updated_index(self.results)) as index:
            unreadable = self._list_unreadable(index)
            index.set_authorizer(_allow_reading)
            index.set_progress_handler(lambda: None, _STEPS_BETWEEN_SIGNALS)
            index.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
            try:
                return evolve(read_answer(index.execute(sql), largest), unreadable=unreadable)
            except (sqlite3.Error, sqlite3.Warning) as error:
                if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
                    raise KeyboardInterrupt from error  # SQLite has taken the signal handler's exception for its own
                if (
                    index.execute("SELECT 1 FROM results LIMIT 1").fetchone() is None
                ):  # nor any column of a metric
                    raise StoreError(explain_absence(self.location)) from error
                reason = str(error)
                if reason == "not authorized":
                    reason += ": a query can only read, so write a SELECT from the store's tables"
                raise explain_query(reason) from error

    def describe_tables(self) -> Answer:
        """Update the index, and return a row for each column that a query can name.

        A row has four texts: the table, the column's name, its SQL type and its description.

        Raises:
            StoreError: The store's directory does not exist, cannot be read, is that of a campaign, or has campaigns
                and no result of its own. Or the index cannot be used.
        """
        with closing(_updated_index(self.results)) as index:
            return evolve(_SqliteTables(index).describe(), unreadable=self._list_unreadable(index))

    def load(self, run_id: str) -> Result:
        """Return the result of the run `run_id` from its directory. Its records are read when they are first used.

        Raises:
            UnknownName: There is no run of this name.
            StoreError: The run has no result; or there is no such run, and the directory cannot be read to suggest
                others.
            DocumentError: The result cannot be read, is corrupt, or is of another major version.
        """
        return self.results.load(self.results.find_run(run_id))

    def _list_unreadable(self, index: sqlite3.Connection) -> tuple[str, ...]:
        return tuple(f"{self.location}/{id}/result.json" for id in _SqliteTables(index).list_unreadable())


class _SqliteTables(Tables):
    TYPES = {str: "TEXT", int: "INTEGER", float: "REAL", bool: "INTEGER"}  # noqa: RUF012 - constant
    PLACE = "?"

    def columns(self, table: str) -> dict[str, str]:
        return dict(self.connection.execute("SELECT name, type FROM pragma_table_info(?)", (table,)))


def _allow_reading(action: int, first: str | None, second: str | None, *_: Any) -> int:
    if action == sqlite3.SQLITE_FUNCTION:
        return sqlite3.SQLITE_DENY if second == "load_extension" else sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_READ and first == "files":
        return sqlite3.SQLITE_DENY
    reading = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE)
    return sqlite3.SQLITE_OK if action in reading else sqlite3.SQLITE_DENY


def index_path(store: ResultStore) -> Path | None:
    """Return the path of the SQLite file that is the index of a store, in the user's cache; it may not exist yet.

    The directory of the indexes is created if it is missing. The path follows from the store's directory alone.
    None if the user has no cache directory that only the user can write.
    """
    folder = private_cache("indexes")
    place = os.fsencode(follow_links(store.directory))
    return folder and folder / f"{hashlib.sha256(place).hexdigest()[:32]}.sqlite"


def _updated_index(store: ResultStore) -> sqlite3.Connection:
    """Open the store's index and bring it up to date; in memory where the cache cannot be written."""
    path = index_path(store)
    if not store.directory.is_dir():
        raise StoreError(f"There are no results in {store.directory}: it is not a directory.")
    refuse_campaign(store.directory)
    for attempt in range(2):
        index: sqlite3.Connection | None = None
        try:
            index = _open(":memory:" if path is None else str(path))
            _update(index, store)
            if index.execute("SELECT 1 FROM files LIMIT 1").fetchone() is None:
                refuse_only_campaigns(store.directory)
            return index
        except sqlite3.DatabaseError as error:
            if index is not None:
                index.close()
            if path is None or attempt or "locked" in str(error):
                index_name, remedy = (
                    ("in memory", "") if path is None else (path, " Remove it, and try again.")
                )
                raise StoreError(f"The index {index_name} cannot be used: {error}.{remedy}") from error
            path.unlink(missing_ok=True)  # damaged: it is built again
    raise AssertionError


def _open(place: str) -> sqlite3.Connection:
    """Open a database that holds exactly our tables; raises DatabaseError for any other."""
    index = sqlite3.connect(place, timeout=_BUSY_SECONDS, isolation_level=None)
    try:
        index.execute("PRAGMA trusted_schema = OFF")
        index.execute("BEGIN IMMEDIATE")
        objects = set(index.execute("SELECT type, name FROM sqlite_master WHERE sql NOT NULL"))
        if not objects:
            _SqliteTables(index).create()
            index.execute(f"PRAGMA user_version = {VERSION}")
        elif objects != OBJECTS or _version(index) != VERSION:
            raise sqlite3.DatabaseError("it is not an index of this version")
        index.execute("COMMIT")
    except sqlite3.Error:
        index.close()
        raise
    return index


def _version(index: sqlite3.Connection) -> int:
    (version,) = index.execute("PRAGMA user_version").fetchone()
    return int(version)


def _update(index: sqlite3.Connection, store: ResultStore) -> None:
    """Take in what is new or changed, and drop what is gone, in one transaction."""
    tables, files = _SqliteTables(index), list_files(store.directory)
    index.execute("BEGIN IMMEDIATE")
    try:
        known = {id: (modified, size) for id, modified, size in index.execute("SELECT * FROM files")}
        changed = [id for id, version in files.items() if known.get(id) != version]
        tables.delete([*(known.keys() - files.keys()), *(known.keys() & set(changed))])
        for start in range(0, len(changed), _BATCH):
            _insert(tables, store, {id: files[id] for id in changed[start : start + _BATCH]})
    except BaseException:
        index.execute("ROLLBACK")
        raise
    index.execute("COMMIT")


def _insert(tables: Tables, store: ResultStore, files: Mapping[str, Version]) -> None:
    results: dict[str, Result] = {}
    for id in files:
        try:
            results[id] = store.load(store.directory / id)
        except DlperfError as error:
            tables.insert_rows("unreadable", ("id", "error"), [(id, str(error))])
    tables.insert(results)
    tables.insert_rows(
        "files",
        [column.name for column in FILES],
        [(id, version.modified, version.size) for id, version in files.items()],
    )


def list_files(directory: Path, run_ids: Iterable[str] | None = None) -> dict[str, Version]:
    """Return a dict from the name of each run that has a result to the version (time and size) of the result's file.

    Args:
        directory: A directory with runs.
        run_ids: Names of the runs to look at, which also give the order; None for all, in no particular order.

    Raises:
        StoreError: `run_ids` is None, and the directory cannot be read.
    """
    return dict(_result_files(directory, _list_names(directory) if run_ids is None else run_ids))


def _list_names(directory: Path) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            return [entry.name for entry in entries if not entry.name.startswith(".")]
    except OSError as error:
        raise StoreError(f"The results in {directory} cannot be read: {error.strerror}.") from error


def _result_files(directory: Path, names: Iterable[str]) -> Iterator[tuple[str, Version]]:
    prefix = os.fspath(directory)
    for name in names:
        try:  # neither a Path nor `suppress`: for 100,000 results these take most of a second
            status = os.stat(f"{prefix}/{name}/result.json")  # noqa: PTH116
        except OSError:
            continue
        yield name, Version(status.st_mtime_ns, status.st_size)
