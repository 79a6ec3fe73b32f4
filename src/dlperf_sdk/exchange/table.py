"""Results as a flat table, one row each: plain values, and CSV.

`COLUMNS` come first and are the same in every table. After them come, for each metric that any of the results
has, in alphabetical order, `NAME` (the median), `NAME.low` and `NAME.high` (its interval) and `NAME.unit`. A cell
is a text, a whole number, a real number, true or false, or None: nobody measured or said it. What is missing is
never zero, and never an empty text.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import frozen

from dlperf_sdk.documents.json_values import visible
from dlperf_sdk.errors import DocumentError
from dlperf_sdk.interfaces.measurer import Metric
from dlperf_sdk.results.result import FAIL, INCONCLUSIVE, Fact, Result

Value = str | int | float | bool | None
Row = dict[str, Value]


@frozen
class TableColumn:
    """A column: its name, the one kind of value that it holds beside None, and what that is."""

    name: str
    kind: type[str] | type[int] | type[float] | type[bool]
    help: str


@frozen
class _Seen:
    """A result, and its facts and metrics by name."""

    result: Result
    facts: Mapping[str, Fact]
    metrics: Mapping[str, Metric]

    @classmethod
    def of(cls, result: Result) -> _Seen:
        facts = {fact.name: fact for fact in reversed(result.facts)}
        return cls(result, facts, {metric.name: metric for metric in reversed(result.metrics)})

    def fact(self, name: str) -> Any:
        """As observed, else as requested."""
        fact = self.facts.get(name)
        if fact is None:
            return None
        return fact.requested if fact.observed is None else fact.observed

    def batch(self, devices: int) -> int | None:
        """None where the largest was looked for, and none was found."""
        spec = self.result.spec
        return None if spec.wants_max_batch else spec.batch_size * devices

    def repeats(self) -> int:
        imported = self.result.imported
        return len(self.result.repeats if imported is None else imported.sources)

    def verdicts(self, outcome: str) -> str:
        return " ".join(verdict.name for verdict in self.result.verdicts if verdict.outcome == outcome)


_Reader = Callable[[_Seen], Any]


def _seen(name: str) -> _Reader:
    return lambda row: row.fact(name)


_FIXED: tuple[tuple[str, Any, _Reader, str], ...] = (
    ("id", str, lambda row: row.result.id, "Name of the run."),
    ("status", str, lambda row: row.result.status, "ok, or the kind of failure."),
    ("ok", bool, lambda row: row.result.ok, "The run finished and no integrity verdict failed."),
    ("failed", str, lambda row: row.verdicts(FAIL), "Names of the failed verdicts, separated by spaces."),
    (
        "inconclusive",
        str,
        lambda row: row.verdicts(INCONCLUSIVE),
        "Names of the inconclusive verdicts, separated by spaces.",
    ),
    ("framework", str, lambda row: row.result.spec.framework, "Name of the framework's plugin."),
    (
        "framework_version",
        str,
        _seen("framework_version"),
        "Version of the framework, as reported by the workers.",
    ),
    ("model", str, lambda row: row.result.spec.model, "Model."),
    (
        "topology",
        str,
        lambda row: str(row.result.spec.topology),
        "Nodes × devices per node, and the launcher.",
    ),
    ("nodes", int, lambda row: row.result.spec.topology.nodes, "Nodes."),
    ("devices", int, lambda row: row.result.spec.topology.devices, "Devices of all nodes."),
    ("batch_size", int, lambda row: row.batch(1), "Samples per device and step."),
    (
        "global_batch_size",
        int,
        lambda row: row.batch(row.result.spec.topology.devices),
        "Samples of all devices.",
    ),
    ("accumulation", int, lambda row: row.result.spec.accumulation, "Micro-batches per step."),
    ("precision", str, _seen("precision"), "Precision: as observed if known, else as requested."),
    ("compiler", str, _seen("compiler"), "Compiler: as observed if known, else as requested."),
    (
        "strategy",
        str,
        _seen("strategy"),
        "Gradient synchronization: as observed if known, else as requested.",
    ),
    ("layout", str, _seen("layout"), "Memory layout of images: as observed if known, else as requested."),
    ("device", str, _seen("device"), "Kind of device: as observed if known, else as requested."),
    ("data", str, _seen("data"), "Data source: as observed if known, else as requested."),
    (
        "estimator",
        str,
        lambda row: row.fact("estimator") or "elapsed",
        "Estimator of the throughput: elapsed if dlperf-sdk measured it, else that of the imported logs.",
    ),
    (
        "options",
        str,
        lambda row: json.dumps(row.result.spec.options, sort_keys=True) if row.result.spec.options else None,
        "Requested options, as a JSON object.",
    ),
    ("protocol", str, _seen("protocol"), "Name of the protocol."),
    (
        "repeats",
        int,
        lambda row: row.repeats(),
        "Number of finished repeats, or of logs if the result was imported.",
    ),
    (
        "imported",
        str,
        lambda row: None if row.result.imported is None else row.result.imported.importer,
        "Name of the importer; empty if dlperf-sdk measured the result.",
    ),
    ("started_at", str, lambda row: row.result.started_at, "UTC, ISO 8601."),
    ("sdk_version", str, lambda row: row.result.sdk_version, "Version of dlperf-sdk that wrote the result."),
)

COLUMNS: tuple[TableColumn, ...] = tuple(TableColumn(name, kind, help) for name, kind, _, help in _FIXED)
"""Columns that every table begins with."""


def columns(results: Iterable[Result]) -> tuple[TableColumn, ...]:
    """The columns of a table of these results: `COLUMNS`, then those of the metrics that any of them has."""
    return tuple(column for column, _ in _read(results))


def rows(results: Sequence[Result]) -> list[Row]:
    """One flat row per result, in their order; every row has the same keys, the names of `columns`."""
    read = _read(results)
    return [
        {column.name: _cell(column.kind, reader(seen)) for column, reader in read}
        for seen in map(_Seen.of, results)
    ]


def _read(results: Iterable[Result]) -> list[tuple[TableColumn, _Reader]]:
    found = [(column, reader) for column, (_, _, reader, _) in zip(COLUMNS, _FIXED, strict=True)]
    taken = {column.name for column in COLUMNS}
    for name in sorted({metric.name for result in results for metric in result.metrics}):
        for part, kind, help in _PARTS:
            title = _free(f"{_text(name)}.{part}" if part != "value" else _text(name), taken)
            found.append((TableColumn(title, kind, help), _part(name, part)))
    return found


_PARTS: tuple[tuple[str, Any, str], ...] = (
    ("value", float, "Median over the repeats."),
    ("low", float, "Lower end of the median's interval; none below six repeats."),
    ("high", float, "Its upper end."),
    ("unit", str, "Unit of the three."),
)


def _part(name: str, part: str) -> _Reader:
    return lambda row: getattr(row.metrics[name], part) if name in row.metrics else None


def _free(name: str, taken: set[str]) -> str:
    """The name, with a number behind it where another column has it; it is taken from then on."""
    free, count = name, 2
    while free in taken:
        free, count = f"{name} {count}", count + 1
    taken.add(free)
    return free


def _cell(kind: Any, value: Any) -> Value:
    """A plain value of the column's kind. What ranks did not agree in, a list, becomes JSON."""
    if value is None:
        return None
    if kind is str:
        return _text(value if isinstance(value, str) else json.dumps(value, sort_keys=True)) or None
    plain: Value = kind(value)
    return plain


def _text(text: str) -> str:
    """Replace what steers a terminal and what no file in UTF-8 can hold: control characters and lone surrogates."""
    return visible(text.encode("utf-8", "backslashreplace").decode("utf-8"))


# -- CSV

_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠", "\t", "\n", "'")
"""Characters that begin a cell, after white space, that a spreadsheet would run, and the mark that prevents it."""


def to_csv(results: Sequence[Result]) -> str:
    """The table as CSV (RFC 4180): a header, then a line per result; nothing where a cell is None.

    A text that a spreadsheet would take for a formula (beginning with = + - @, also full-width or after white
    space) has an apostrophe before it, and so has one that begins with an apostrophe: `read_csv` takes it away again.
    Numbers are written so that they read back exactly; those that are not finite as nan, inf and -inf.
    """
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow([_safe(column.name) for column in columns(results)])
    for row in rows(results):
        writer.writerow([_written(value) for value in row.values()])
    return file.getvalue()


def _written(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return _safe(value) if isinstance(value, str) else repr(value)


def _safe(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA) or text.lstrip().startswith(_FORMULA) else text


def read_csv(text: str) -> list[Row]:
    """The rows of a table that `to_csv` wrote.

    Raises:
        DocumentError: it is no such table; the message names the line.
    """
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    kinds = {column.name: column.kind for column in COLUMNS}
    found: list[Row] = []
    try:
        names = [_bare(name) for name in next(reader, [])]
        if names[: len(COLUMNS)] != list(kinds):
            raise ValueError("its first columns are not those of a table of results")
        parts = [kind for _, kind, _ in _PARTS]
        kind_of = [*kinds.values(), *(parts * (len(names) // len(parts) + 1))][: len(names)]
        for cells in reader:
            if len(cells) != len(names):
                raise ValueError(f"{len(cells)} cells under {len(names)} columns")
            found.append(
                {name: _parsed(kind, cell) for name, kind, cell in zip(names, kind_of, cells, strict=True)}
            )
    except (csv.Error, ValueError) as error:
        raise DocumentError(
            f"Line {reader.line_num} of the CSV is none of a table of results: {error}."
        ) from None
    return found


def _parsed(kind: Any, cell: str) -> Value:
    if not cell:
        return None
    if kind is bool:
        if cell not in ("true", "false"):
            raise ValueError(f"{cell[:80]!r} is neither true nor false")
        return cell == "true"
    value: Value = _bare(cell) if kind is str else kind(cell)
    return value


def _bare(cell: str) -> str:
    return cell.removeprefix("'")
