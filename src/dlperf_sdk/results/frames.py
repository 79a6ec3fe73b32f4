"""Results as data frames of Arrow, pandas and Polars, with a row per result, repeat or step.

Each library is imported when its function is called.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from dlperf_sdk.errors import UnknownName, UsageError
from dlperf_sdk.results import table
from dlperf_sdk.results.stored_repeats import numbers_of
from dlperf_sdk.results.table import COLUMNS, Row, TableColumn

if TYPE_CHECKING:
    from dlperf_sdk.results.result import Result

Per = Literal["result", "repeat", "step"]

CASE = COLUMNS[: [column.name for column in COLUMNS].index("estimator")]
"""Columns that identify a row's case, in the tables of repeats and steps."""

REPEAT = TableColumn("repeat", int, "Number of the repeat: that of its attempt, counted from 1.")
STEP_COLUMNS = (
    *CASE,
    REPEAT,
    TableColumn("rank", int, "Trainer process, counted from 0."),
    TableColumn("step", int, "Step of the window, counted from 0."),
    TableColumn("seconds", float, "Duration of the step, in s."),
    TableColumn("data_wait", float, "Time that the loop waited for its input, in s."),
    TableColumn("loss", float, "Mean loss of the process's replicas."),
)


def to_arrow(results: Sequence[Result], per: Per = "result") -> Any:
    """Return a `pyarrow.Table`, with rows in the order of the results. Each field has a `description` in its metadata.

    A missing value is null.

    Args:
        results: The results.
        per: What a row stands for: `result`, `repeat` or `step`, which means a step of the window in one trainer.
            Imported results have no rows per step.

    Returns:
        The table. Its first columns have the facts of the case, with the names in `CASE`. For `result`, further facts
        follow and, for each metric, `NAME` (the median), `NAME_low` and `NAME_high` (its interval) and `NAME_unit`. For
        `repeat`, the columns `repeat` and, for each metric, `NAME` and `NAME_unit` follow. For `step`, the columns
        `repeat`, `rank`, `step`, `seconds`, `data_wait` and `loss` follow. In NAME, `_` replaces the `-` of a metric.

    Raises:
        UnknownName: `per` is none of the three.
        UsageError: Pyarrow cannot be imported, or a whole number does not fit into 64 bits.
        DocumentError: Rows per step are requested, and records in the store cannot be read.
    """
    columns, rows = _table(results, per)
    pa = import_library("pyarrow")
    kinds = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    fields = [
        pa.field(column.name, kinds[column.kind], metadata={"description": column.help}) for column in columns
    ]
    with _refuse_overflow("an Arrow table", OverflowError, pa.ArrowException):
        return pa.Table.from_pylist(rows, schema=pa.schema(fields))


def to_pandas(results: Sequence[Result], per: Per = "result") -> Any:
    """Return a `pandas.DataFrame`, with rows in the order of the results.

    A missing value is NaN in a column of real numbers, and NA in any other column.

    Args:
        results: The results.
        per: What a row stands for: `result`, `repeat` or `step`, which means a step of the window in one trainer.
            The columns are those that `to_arrow` describes.

    Raises:
        UnknownName: `per` is none of the three.
        UsageError: Pandas cannot be imported, or a whole number does not fit into 64 bits.
        DocumentError: Rows per step are requested, and records in the store cannot be read.
    """
    columns, rows = _table(results, per)
    pandas = import_library("pandas")
    kinds = {str: "string", int: "Int64", float: "float64", bool: "boolean"}
    with _refuse_overflow("a data frame of pandas", OverflowError):
        return pandas.DataFrame(
            {
                column.name: pandas.Series([row[column.name] for row in rows], dtype=kinds[column.kind])
                for column in columns
            }
        )


def to_polars(results: Sequence[Result], per: Per = "result") -> Any:
    """Return a `polars.DataFrame`, with rows in the order of the results. A missing value is null.

    Args:
        results: The results.
        per: What a row stands for: `result`, `repeat` or `step`, which means a step of the window in one trainer.
            The columns are those that `to_arrow` describes.

    Raises:
        UnknownName: `per` is none of the three.
        UsageError: Polars cannot be imported, or a whole number does not fit into 64 bits.
        DocumentError: Rows per step are requested, and records in the store cannot be read.
    """
    columns, rows = _table(results, per)
    polars = import_library("polars")
    kinds = {str: polars.String, int: polars.Int64, float: polars.Float64, bool: polars.Boolean}
    with _refuse_overflow("a data frame of Polars", OverflowError, polars.exceptions.PolarsError):
        return polars.DataFrame(rows, schema={column.name: kinds[column.kind] for column in columns})


def import_library(module: str) -> Any:
    """Import and return a module of a library that dlperf-sdk does not depend on.

    `module` is the full name of the module, such as `pyarrow.parquet`. Its first part is what `pip install` takes.

    Raises:
        UsageError: The module cannot be imported; the message says how to install its library.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        raise UsageError(
            f"This table is made with {name}, which cannot be imported ({error}). Install it beside dlperf-sdk: "
            f"pip install {name}."
        ) from error


@contextmanager
def _refuse_overflow(frame: str, *errors: type[Exception]) -> Iterator[None]:
    """Return a context in which a library's errors about a value become a `UsageError`."""
    try:
        yield
    except errors as error:
        raise UsageError(
            f"The results do not fit into {frame}: {' '.join(str(error).split()).rstrip('.')}."
        ) from error


def _table(results: Sequence[Result], per: str) -> tuple[Sequence[TableColumn], list[Row]]:
    if per not in _TABLES:
        raise UnknownName("row of a table", per, _TABLES)
    return _TABLES[per](results)


def _result_rows(results: Sequence[Result]) -> tuple[Sequence[TableColumn], list[Row]]:
    return table.columns(results), table.rows(results)


def _repeat_rows(results: Sequence[Result]) -> tuple[Sequence[TableColumn], list[Row]]:
    """Return a column for each metric, with its value in the repeat, and one for its unit."""
    columns, names_taken = [*CASE, REPEAT], {column.name for column in (*CASE, REPEAT)}
    titles: dict[str, tuple[str, str]] = {}
    for name in sorted({metric.name for result in results for metric in result.metrics}):
        value, unit = (
            table.free_name(table.identifier(text), names_taken) for text in (name, f"{name}_unit")
        )
        columns += [TableColumn(value, float, "Value in the repeat."), TableColumn(unit, str, "Its unit.")]
        titles[name] = value, unit
    rows = []
    for result, case in zip(results, _case_rows(results), strict=True):
        metrics = {metric.name: metric for metric in result.metrics if metric.repeats}
        count = max((len(metric.repeats) for metric in metrics.values()), default=0)
        for index, number in enumerate(numbers_of(result.repeats, count)):
            row: Row = {**case, REPEAT.name: number}
            for name, (value, unit) in titles.items():
                metric = metrics.get(name)
                has_value = metric is not None and index < len(metric.repeats)
                row[value] = table.cell(float, metric.repeats[index]) if metric and has_value else None
                row[unit] = table.cell(str, metric.unit) if metric and has_value else None
            rows.append(row)
    return columns, rows


def _step_rows(results: Sequence[Result]) -> tuple[Sequence[TableColumn], list[Row]]:
    rows = []
    for result, case in zip(results, _case_rows(results), strict=True):
        rows += [{**case, **step} for step in _steps(result)]
    return STEP_COLUMNS, rows


def _steps(result: Result) -> Iterator[Row]:
    for repeat in result.repeats:
        for record in repeat.records:
            losses = [replica.losses for replica in record.replicas]
            for step, (seconds, data_wait) in enumerate(
                zip(record.step_times, record.data_waits, strict=True)
            ):
                values = [series[step] for series in losses]
                yield {
                    REPEAT.name: repeat.attempt,
                    "rank": record.rank,
                    "step": step,
                    "seconds": float(seconds),
                    "data_wait": float(data_wait),
                    "loss": sum(values) / len(values) if values else None,
                }


def _case_rows(results: Sequence[Result]) -> list[Row]:
    return [{column.name: row[column.name] for column in CASE} for row in table.rows(results)]


_TABLES: Mapping[str, Callable[[Sequence[Result]], tuple[Sequence[TableColumn], list[Row]]]] = {
    "result": _result_rows,
    "repeat": _repeat_rows,
    "step": _step_rows,
}
