"""The interface of stores that answer queries, and of databases that results are uploaded to.

A directory of results is such a store, through its index. A database is one in addition to the directories.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from attrs import frozen

if TYPE_CHECKING:
    from dlperf_sdk.results.result import Result


@frozen
class Answer:
    """Rows that a query selects, with the names of their columns; and the results of the store that cannot be read."""

    columns: tuple[str, ...]
    """Names of the columns, in the order of each row."""
    rows: tuple[tuple[str | int | float | bool | None, ...], ...]
    """The selected rows, in the order of the query; empty if it selects none."""
    unreadable: tuple[str, ...] = ()
    """Results of the store that cannot be read, by the name of their run: the path of the file, or the run and the
    database."""


class Version(NamedTuple):
    """Version of a result's file. In a database, a version replaces another only if the file was changed later."""

    # A tuple, because a query on an index of 100,000 results makes 200,000.
    modified: int
    """Time of the file's last change, in ns since 1970."""
    size: int
    """Size of the file in bytes."""


class Store(ABC):
    """Results that can be queried, in the tables of `dlperf_sdk.results.tables`."""

    location: str
    """Text that names the store in messages. It never contains credentials."""

    @abstractmethod
    def query(self, sql: str, largest: float = math.inf) -> Answer:
        """Run an SQL query on the tables, and return the selected rows. A query can only read.

        Args:
            sql: The query, one statement.
            largest: Maximum memory of the selected rows in bytes.

        Raises:
            UsageError: The query is not valid, is no statement that selects rows, selects more than `largest` bytes,
                takes too long, or would do something other than read.
            StoreError: The store cannot be used.
            KeyboardInterrupt: A signal ended the query.
        """

    @abstractmethod
    def describe_tables(self) -> Answer:
        """Return a row for each column that a query can name.

        A row has four texts: the table, the column's name, its SQL type and its description.

        Raises:
            StoreError: The store cannot be used.
        """

    @abstractmethod
    def load(self, run_id: str) -> Result:
        """Return the result of a run, with its records.

        Args:
            run_id: Name of the run.

        Raises:
            UnknownName: The store has no run of this name.
            StoreError: The store cannot be used; or, in a directory, the run has no result.
            DocumentError: The result is damaged.
        """

    def close(self) -> None:
        """Close the connection, if the store has one. The next use opens a new one."""
        return


class ResultDatabase(Store):
    """A database to which results are uploaded. The results stay in their directories as well."""

    identity: str
    """Text without credentials that differs between databases, also if their `location` is the same."""

    @abstractmethod
    def versions(self, run_ids: Sequence[str]) -> Mapping[str, Version]:
        """Return, for each of some runs, which version of its result the database holds: run's name → version.

        A result has a new version when its file changes. Runs that the database lacks are left out.

        Args:
            run_ids: Names of the runs.

        Raises:
            StoreError: The database cannot be used.
        """

    @abstractmethod
    def upload(self, result: Result, version: Version) -> None:
        """Write a result, completely or not at all.

        If the database has the result already, it keeps the version whose file was changed last. If the connection is
        lost, the upload is tried again over a new connection.

        Args:
            result: The result.
            version: The version of the result's file: when it was changed, and its size.

        Raises:
            DocumentError: The database cannot hold this result.
            StoreError: The database cannot be used.
        """

    @abstractmethod
    def upgrade(self) -> None:
        """Rebuild tables that have an older format, from the complete results that the database holds.

        If the tables are of the present version, nothing changes.

        Raises:
            StoreError: The database cannot be used, or its tables are of a newer version.
        """


class DatabaseType(ABC):
    """Databases of one kind. Registered in the group `dlperf_sdk.databases`."""

    name: ClassVar[str]
    """Scheme of the databases' URLs; the entry point carries the same name."""

    @abstractmethod
    def open(self, url: str) -> ResultDatabase:
        """Return the database at a URL. It connects when it is first used.

        Args:
            url: The URL, as the person who starts the command gives it; it is never read from a file.

        Raises:
            UsageError: The URL is not valid. The message does not contain it.
        """
