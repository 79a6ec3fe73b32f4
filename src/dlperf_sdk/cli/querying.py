"""`query`: SQL on the results of a store."""

from __future__ import annotations

import math
from contextlib import closing
from typing import Annotated, Literal

from cyclopts import Parameter

from dlperf_sdk.cli.common_flags import STORE
from dlperf_sdk.cli.output import say_unreadable, write_text
from dlperf_sdk.cli.screen import AS_USUAL, Common, command, emit, show
from dlperf_sdk.documents.json_values import format_value
from dlperf_sdk.errors import UsageError
from dlperf_sdk.folders import RESULTS
from dlperf_sdk.interfaces.database import Answer
from dlperf_sdk.reports.blocks import Column, Paragraph, Table

_LARGEST = 256 * 2**20
"""Maximum memory of the selected rows in bytes."""


@command
def query(
    sql: Annotated[
        str | None,
        Parameter(metavar="SQL", help="A query. Without one, the tables and their columns are shown."),
    ] = None,
    /,
    *,
    store: STORE = str(RESULTS),
    format: Annotated[Literal["terminal", "csv"], Parameter(help="terminal or csv.")] = "terminal",
    common: Common = AS_USUAL,
) -> int:
    """Query the results of a store with SQL. A query cannot change the store.

    The store is a database or a directory. For a directory, the query reads an index in your cache.

    `dlperf query "select framework, throughput from results where model = 'resnet50' order by 2 desc"`
    """
    from dlperf_sdk.exchange.csv_table import csv_text
    from dlperf_sdk.exchange.databases import open_store

    if common.json and format == "csv":
        raise UsageError("--json prints an object, and --format csv is another: leave one out.")
    with closing(open_store(store)) as results:
        answer = results.describe_tables() if sql is None else results.query(sql, _LARGEST)
    say_unreadable(answer.unreadable)
    _check_values(answer)
    if common.json:
        emit({"columns": list(answer.columns), "rows": [list(row) for row in answer.rows]})
    elif format == "csv":
        write_text(csv_text(answer.columns, answer.rows))
    elif not answer.rows:
        show([Paragraph(f"No row answers the query. Its columns: {', '.join(answer.columns)}.", "quiet")])
    else:
        show([Table(_headings(answer), tuple(tuple(map(_text, row)) for row in answer.rows))])
    return 0


def _check_values(answer: Answer) -> None:
    """Raise UsageError for a value that no output has: SQL can compute binary data and infinite numbers."""
    for name, values in zip(answer.columns, zip(*answer.rows, strict=True), strict=False):
        types = set(map(type, values))
        if bytes in types:
            raise UsageError(f"The query selects binary data as {format_value(name)}; select hex(…) of it.")
        if float in types and not all(math.isfinite(value) for value in values if type(value) is float):
            raise UsageError(
                f"The query selects an infinite number as {format_value(name)}; add a condition."
            )


def _headings(answer: Answer) -> tuple[Column, ...]:
    """Return the columns, those of numbers on the right."""
    cells = zip(*answer.rows, strict=True) if answer.rows else [()] * len(answer.columns)
    return tuple(
        Column(name, right=any(isinstance(value, int | float) for value in values))
        for name, values in zip(answer.columns, cells, strict=True)
    )


def _text(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
