"""Connections to a server: parameters, transactions with time limits, and errors as messages without credentials."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import conninfo

from dlperf_sdk.errors import StoreError, UsageError

CONNECT_SECONDS = 10
"""Time limit for a connection, unless the URL or `PGCONNECT_TIMEOUT` has one."""
STATEMENT_SECONDS = 60
"""Time limit of a statement, which the server keeps."""
LOCK_SECONDS = 20
"""Time limit for a lock, which the server keeps."""
LOST_SECONDS = STATEMENT_SECONDS + 15
"""Time limit of a transaction, which the client keeps: a server that is stopped keeps none."""
SCHEMA = "dlperf"
"""Schema of all our tables, so that the database can have other tables, too."""

_ADVICE = {
    "08": "check that the server runs, and the network",
    "25006": "name a server that can be written, not a standby",
    "42501": "ask the database's owner for the privileges that the guide lists",
    "53100": "make room on the server's disk",
    "53": "free connections or memory of the server",
    "57": "try again when the server is back",
}
"""First characters of an SQLSTATE → what to do next. The longest that matches is used."""


class ConnectionLost(StoreError):
    """The end of a connection during a transaction, or a conflict with another transaction; another try may succeed.

    After the end of a connection, the transaction may have been committed or not.
    """


def parse_url(url: str) -> str:
    """Return the connection string of libpq for a URL, with defaults for parameters that the URL does not have.

    The defaults are the application's name `dlperf-sdk`, the encoding UTF-8, and a connection time limit of 10 s
    (`CONNECT_SECONDS`) unless the environment variable `PGCONNECT_TIMEOUT` is set.

    Raises:
        UsageError: The URL is not valid. The message does not contain it.
    """
    try:
        parameters = conninfo.conninfo_to_dict(url)
    except psycopg.Error:  # its message may contain a part of the password
        raise UsageError(
            "The URL of the database is not valid; write postgresql://USER@HOST:PORT/DATABASE, with %XX in place of "
            "special characters. A password is better in PGPASSWORD or ~/.pgpass."
        ) from None
    defaults = {"application_name": "dlperf-sdk", "client_encoding": "utf8"}
    if "PGCONNECT_TIMEOUT" not in os.environ:
        defaults["connect_timeout"] = str(CONNECT_SECONDS)
    return conninfo.make_conninfo("", **{**defaults, **parameters})


def identify(parameters: str) -> str:
    """Return a text that is equal for two connection strings only if they name the same database of the same server.

    `parameters` is a connection string of libpq; what it leaves open is taken from variables such as `PGHOST` and
    `PGSERVICE`. The text has no password.
    """
    known = {option.keyword.decode(): option.val for option in psycopg.pq.Conninfo.get_defaults()}
    named = {name: value.decode() for name, value in known.items() if value is not None}
    named |= {name: str(value) for name, value in conninfo.conninfo_to_dict(parameters).items()}
    named.setdefault("dbname", named.get("user", ""))
    return " ".join(f"{name}={named.get(name)}" for name in ("service", "host", "hostaddr", "port", "dbname"))


def connect(parameters: str, location: str) -> psycopg.Connection:
    """Return a new connection, in autocommit mode.

    Args:
        parameters: Connection string of libpq.
        location: Name of the database in messages.

    Raises:
        StoreError: The server cannot be reached, or does not accept the user.
    """
    try:
        # Without prepared statements, a pool of connections may be in between.
        return psycopg.connect(parameters, autocommit=True, prepare_threshold=None)
    except psycopg.Error as error:  # which has no SQLSTATE
        reason = " ".join(str(error).split())
        reason += "" if reason.endswith(("?", ".")) else "."  # libpq asks whether the server is running
        raise StoreError(
            f"The database {location} cannot be used: {reason} Check the server, the name of the database, user and "
            "password (PGUSER, PGPASSWORD, ~/.pgpass or PGSERVICE)."
        ) from None


@contextmanager
def transaction(
    connection: psycopg.Connection, location: str, *, read_only: bool = False, seconds: float = LOST_SECONDS
) -> Iterator[None]:
    """Return a context manager whose block is one transaction with time limits.

    A statement may take 60 s (`STATEMENT_SECONDS`), and the wait for a lock 20 s (`LOCK_SECONDS`). Tables are looked up
    in the schema `dlperf` first. The transaction is committed at the end of the block, and rolled back after an
    exception.

    Args:
        connection: The connection, which is in autocommit mode.
        location: Name of the database in messages.
        read_only: True for a transaction that cannot write, and that is rolled back in any case.
        seconds: Time limit of the whole transaction in seconds. After that, the server is regarded as lost, and the
            connection is ended.

    Raises:
        ConnectionLost: The connection ended, the server did not answer in time, or the transaction conflicted with
            another one.
        StoreError: In place of any other error of psycopg.
    """
    try:
        with _limit(connection, seconds), connection.transaction(force_rollback=read_only):
            connection.execute(
                f"SET TRANSACTION {'READ ONLY' if read_only else 'READ WRITE'}; "
                f"SET LOCAL search_path = {SCHEMA}, pg_temp; "
                f"SET LOCAL statement_timeout = '{STATEMENT_SECONDS}s'; SET LOCAL lock_timeout = '{LOCK_SECONDS}s'"
            )
            yield
    except psycopg.Error as error:
        raise _explain(error, location, connection.closed) from error


@contextmanager
def _limit(connection: psycopg.Connection, seconds: float) -> Iterator[None]:
    watchdog = threading.Timer(seconds, _cut, [connection.fileno()])
    watchdog.daemon = True
    watchdog.start()
    try:
        yield
    finally:
        watchdog.cancel()


def _cut(descriptor: int) -> None:
    """End a connection that another thread waits for."""
    with socket.socket(fileno=os.dup(descriptor)) as connection:
        connection.shutdown(socket.SHUT_RDWR)


def _explain(error: psycopg.Error, location: str, is_lost: bool) -> StoreError:
    state = error.sqlstate or "08"
    prefixes = sorted(filter(state.startswith, _ADVICE), key=len)
    advice = f"; {_ADVICE[prefixes[-1]]}" if prefixes else ""
    reason = " ".join((error.diag.message_primary or str(error)).split())
    # Deadlocks and conflicts of concurrent transactions are to be tried again, too.
    kind = ConnectionLost if is_lost or state.startswith("40") else StoreError
    return kind(f"The database {location} cannot be used: {reason}{advice}.")
