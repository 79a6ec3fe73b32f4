"""The table of results as a Parquet file, written by pyarrow (the extra `parquet`)."""

from __future__ import annotations

import io
from collections.abc import Sequence

from dlperf_sdk.results.frames import import_library, to_arrow
from dlperf_sdk.results.result import Result


def to_parquet(results: Sequence[Result]) -> bytes:
    """Return the table of results as the content of a Parquet file: a row per result, in order.

    The columns are those of `dlperf_sdk.results.table.columns`: its `COLUMNS`, then the metrics in alphabetical order,
    each with a column for its value, both ends of its interval, and its unit. The columns hold texts, 64-bit numbers,
    booleans and nulls.

    Raises:
        UsageError: Pyarrow cannot be imported, or a whole number does not fit into 64 bits.
    """
    file = io.BytesIO()
    import_library("pyarrow.parquet").write_table(to_arrow(results), file)
    return file.getvalue()
