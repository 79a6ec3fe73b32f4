"""The table of results as a Parquet file, with pyarrow (the extra `parquet`)."""

from __future__ import annotations

import importlib
import io
from collections.abc import Sequence
from typing import Any

from dlperf_sdk.errors import UsageError
from dlperf_sdk.exchange.table import columns, rows
from dlperf_sdk.results.result import Result


def to_parquet(results: Sequence[Result]) -> bytes:
    """The table of `exchange.table` as a Parquet file's bytes: texts, 64-bit numbers, booleans, and nulls.

    Each column's help is in its field's metadata, under `description`.

    Raises:
        UsageError: pyarrow is not installed, or a whole number does not fit into 64 bits.
    """
    pa = _pyarrow()
    kinds = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    fields = [
        pa.field(column.name, kinds[column.kind], metadata={"description": column.help})
        for column in columns(results)
    ]
    try:
        table = pa.Table.from_pylist(rows(results), schema=pa.schema(fields))
    except (OverflowError, pa.ArrowException) as error:
        raise UsageError(f"The results do not fit into a Parquet table: {error}.") from error
    file = io.BytesIO()
    _pyarrow("pyarrow.parquet").write_table(table, file)
    return file.getvalue()


def _pyarrow(module: str = "pyarrow") -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UsageError(
            f"Parquet is written with pyarrow, which cannot be imported ({error}). Install it beside dlperf-sdk: "
            'pip install "dlperf-sdk[parquet]"; CSV needs nothing.'
        ) from error
