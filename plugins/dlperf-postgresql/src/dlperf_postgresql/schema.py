"""The tables in the schema `dlperf`: creation, version, upgrade, and the complete results in them."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable

import psycopg

from dlperf_postgresql.connection import SCHEMA
from dlperf_sdk.documents.reading import LARGEST_RESULT, parse_json
from dlperf_sdk.errors import DlperfError, DocumentError
from dlperf_sdk.results.result import Result
from dlperf_sdk.results.tables import FILES, TABLES, VERSION, Tables

_LARGEST = 256 * 1024 * 1024
"""Maximum size in bytes of a compressed result; PostgreSQL's own limit is 1 GiB."""
_LOCK = 0x646C70657266
"""Key of the advisory lock under which tables are created; `dlperf` in ASCII."""
_BATCH = 20
"""Number of complete results that are in memory at the same time."""


class PostgresqlTables(Tables):
    """The tables of results, and the table `documents` of the complete results."""

    TYPES = {str: "TEXT", int: "BIGINT", float: "DOUBLE PRECISION", bool: "BOOLEAN"}  # noqa: RUF012 - constant
    PLACE = "%s"
    ADD_COLUMN = "ADD COLUMN IF NOT EXISTS"

    def columns(self, table: str) -> dict[str, str]:
        """Return a dict from column to SQL type of `table` in the schema `dlperf`, in the order of its columns.

        It is empty if there is no such table.

        Raises:
            psycopg.Error: The query failed.
        """
        rows = self.connection.execute(
            "SELECT attname, upper(format_type(atttypid, NULL)) FROM pg_attribute "
            "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            [f"{SCHEMA}.{table}"],
        )
        return dict(rows.fetchall())

    def delete(self, ids: Iterable[str]) -> None:
        """Delete the results of the runs `ids` from the tables of results, from `files` and from `documents`.

        Ids of unknown runs are ignored.

        Raises:
            psycopg.Error: A statement failed.
        """
        names = list(ids)
        super().delete(names)
        self.connection.execute("DELETE FROM documents WHERE id = ANY(%s)", [names])


def stored_version(connection: psycopg.Connection) -> int | None:
    """Return the version of the tables in the database; None if there are no tables.

    The table `store` holds the version; if this table is empty, 0 is returned.

    Raises:
        psycopg.Error: A query failed.
    """
    # Not `to_regclass`, which may not see what another transaction created during this one.
    store = connection.execute(
        "SELECT 1 FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace "
        "WHERE nspname = %s AND relname = 'store'",
        [SCHEMA],
    )
    if store.fetchone() is None:
        return None
    # With the schema's name, a lack of privileges is named, and not taken for a missing table.
    (version,) = connection.execute("SELECT max(version) FROM dlperf.store").fetchone() or (0,)
    return int(version or 0)


def create_missing(connection: psycopg.Connection) -> int:
    """Create the tables if there are none, and return the version of the tables; call this in a transaction.

    Existing tables, of whatever version, are unchanged. If the user is a member of the role that owns the schema, the
    rest of the transaction has this role, so that all users of a team can change what one of them creates.

    Raises:
        psycopg.Error: A statement failed.
    """
    owner = connection.execute(
        "SELECT quote_ident(rolname) FROM pg_namespace JOIN pg_roles ON pg_roles.oid = nspowner "
        "WHERE nspname = %s AND rolname <> current_user AND pg_has_role(pg_roles.oid, 'MEMBER')",
        [SCHEMA],
    ).fetchone()
    if owner is not None:
        connection.execute(f"SET LOCAL ROLE {owner[0]}")
    version = stored_version(connection)
    if version is None:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        version = stored_version(connection)  # another user may have created them meanwhile
    if version is None:
        if not connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", [SCHEMA]).fetchone():
            connection.execute(f"CREATE SCHEMA {SCHEMA}")
        connection.execute("CREATE TABLE store (version INTEGER NOT NULL)")
        connection.execute("INSERT INTO store VALUES (%s)", [VERSION])
        PostgresqlTables(connection).create()
        connection.execute("CREATE TABLE documents (id TEXT PRIMARY KEY, document BYTEA NOT NULL)")
        # It is compressed already.
        connection.execute("ALTER TABLE documents ALTER document SET STORAGE EXTERNAL")
        version = VERSION
    return version


def upgrade_older(connection: psycopg.Connection) -> int:
    """Build tables of an older version again from the complete results; return the version that the tables then have.

    The complete results are in the table `documents`. The current version is `VERSION`. Tables of that or a newer
    version are unchanged; missing ones are created. A result that cannot be read any more is noted in the table
    `unreadable`. Call this in a transaction.

    Raises:
        psycopg.Error: A statement failed.
    """
    version = create_missing(connection)
    if version >= VERSION:
        return version
    connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
    files = connection.execute("SELECT id, modified, size FROM files").fetchall()
    connection.execute(f"DROP TABLE {', '.join([*TABLES, 'files'])}")
    tables = PostgresqlTables(connection)
    tables.create()
    tables.insert_rows("files", [column.name for column in FILES], files)
    with connection.cursor(name="dlperf_documents") as documents:
        documents.execute("SELECT id, document FROM documents")
        while batch := documents.fetchmany(_BATCH):
            for run_id, document in batch:
                try:
                    result = unpack(document, f"The result {run_id}")
                except DlperfError as error:
                    tables.insert_rows("unreadable", ("id", "error"), [(run_id, str(error))])
                else:
                    tables.insert({run_id: result})
    connection.execute("UPDATE store SET version = %s", [VERSION])
    return VERSION


def pack(result: Result) -> bytes:
    """Return a complete result, with its records, as JSON in UTF-8, compressed with zlib.

    Raises:
        DocumentError: The records cannot be read, or the compressed result is larger than 256 MiB; or the result holds
            a value that JSON cannot represent.
    """
    document = zlib.compress(json.dumps(result.to_dict()).encode())
    if len(document) > _LARGEST:
        raise DocumentError(f"It has {len(document):,} bytes when compressed; a database takes {_LARGEST:,}.")
    return document


def unpack(document: bytes, source: str) -> Result:
    """Return the result in a compressed document.

    The document is checked, since anyone with access to the database may have written it.

    Args:
        document: Bytes that `pack` returned.
        source: Name of the result in messages.

    Raises:
        DocumentError: The document is not a valid result, or is too large.
    """
    try:
        decompressor = zlib.decompressobj()
        plain = decompressor.decompress(document, LARGEST_RESULT)
    except zlib.error as error:
        raise DocumentError(f"{source} is damaged: {error}.") from error
    if not decompressor.eof:
        raise DocumentError(f"{source} is damaged, or has more than {LARGEST_RESULT} bytes.")
    return Result.from_dict(parse_json(plain, source))
