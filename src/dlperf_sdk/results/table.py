"""Results as a flat table of plain values, with one row per result.

`COLUMNS` come first and are the same in every table. For each metric that any of the results has, in alphabetical
order, `NAME` (the median), `NAME_low` and `NAME_high` (its interval) and `NAME_unit` follow, where characters
other than letters and digits are underscores. A cell is a text, a whole number, a real number, true or false, or
None for a value that is not known. What is missing is never zero and never an empty text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import frozen

from dlperf_sdk.documents.json_values import replace_control_characters
from dlperf_sdk.spec.identity import case_key

if TYPE_CHECKING:
    from dlperf_sdk.interfaces.measurer import Metric
    from dlperf_sdk.results.result import Fact, Result

Value = str | int | float | bool | None
Row = dict[str, Value]


@frozen
class TableColumn:
    """A column of a table."""

    name: str
    """Name of the column, an identifier of ASCII letters, digits and underscores."""
    kind: type[str] | type[int] | type[float] | type[bool]
    """Type of every cell that is not None."""
    help: str
    """Description of the values."""


@frozen
class _TableRow:
    """A result, and its facts and metrics by name."""

    result: Result
    facts: Mapping[str, Fact]
    metrics: Mapping[str, Metric]

    @classmethod
    def from_result(cls, result: Result) -> _TableRow:
        facts = {fact.name: fact for fact in reversed(result.facts)}
        return cls(result, facts, {metric.name: metric for metric in reversed(result.metrics)})

    def fact(self, name: str) -> Any:
        """Return a fact as observed, else as requested."""
        fact = self.facts.get(name)
        if fact is None:
            return None
        return fact.requested if fact.observed is None else fact.observed

    def batch(self, devices: int) -> int | None:
        """Return the batch size; None if `max` was requested and not resolved."""
        spec = self.result.spec
        return None if spec.wants_max_batch else spec.batch_size * devices

    def hardware(self) -> str:
        """Return the distinct devices that trained: GPUs by name, or processors by model and usable number."""
        is_on_cpu = self.fact("device") in (None, "cpu", "auto")
        names = [name for node in self.result.hardware for name in _list_devices(node, is_on_cpu)]
        return ", ".join(dict.fromkeys(names))

    def repeats(self) -> int:
        imported = self.result.imported
        return len(self.result.repeats if imported is None else imported.sources)

    def verdicts(self, outcome: str) -> str:
        return " ".join(verdict.name for verdict in self.result.verdicts if verdict.outcome == outcome)


def _list_devices(node: Mapping[str, Any], is_on_cpu: bool) -> list[str]:
    """List the devices of a node's description of itself, which may hold anything."""
    gpus, cpu = node.get("gpus"), node.get("cpu")
    if not is_on_cpu and isinstance(gpus, list | tuple):
        return [str(gpu.get("name", "GPU")) for gpu in gpus if isinstance(gpu, Mapping)]
    if not isinstance(cpu, Mapping) or "model" not in cpu:
        return []
    return [f"{cpu['model']}, {cpu['usable']} processors" if "usable" in cpu else str(cpu["model"])]


_Reader = Callable[[_TableRow], Any]


def _read_fact(name: str) -> _Reader:
    return lambda row: row.fact(name)


_FIXED: tuple[tuple[str, Any, _Reader, str], ...] = (
    ("id", str, lambda row: row.result.id, "Name of the run."),
    ("status", str, lambda row: row.result.status, "ok, or the kind of failure."),
    ("ok", bool, lambda row: row.result.ok, "The run finished and no integrity verdict failed."),
    ("failed", str, lambda row: row.verdicts("fail"), "Names of the failed verdicts, separated by spaces."),
    (
        "inconclusive",
        str,
        lambda row: row.verdicts("inconclusive"),
        "Names of the inconclusive verdicts, separated by spaces.",
    ),
    ("framework", str, lambda row: row.result.spec.framework, "Name of the framework's plugin."),
    (
        "framework_version",
        str,
        _read_fact("framework_version"),
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
    ("part", str, lambda row: row.result.spec.part, "Part of a step that was measured; whole for all of it."),
    ("precision", str, _read_fact("precision"), "Precision: as observed if known, else as requested."),
    ("compiler", str, _read_fact("compiler"), "Compiler: as observed if known, else as requested."),
    (
        "strategy",
        str,
        _read_fact("strategy"),
        "Gradient synchronization: as observed if known, else as requested.",
    ),
    (
        "layout",
        str,
        _read_fact("layout"),
        "Memory layout of images: as observed if known, else as requested.",
    ),
    ("device", str, _read_fact("device"), "Kind of device: as observed if known, else as requested."),
    ("data", str, _read_fact("data"), "Data source: as observed if known, else as requested."),
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
    ("protocol", str, _read_fact("protocol"), "Name of the protocol."),
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
    ("hardware", str, lambda row: row.hardware(), "GPUs of the nodes, or their processors."),
    ("case_key", str, lambda row: case_key(row.result.spec), "Key of the case and its measured window."),
    ("case_name", str, lambda row: row.result.spec.label, "Short name of the case, without defaults."),
    (
        "labels",
        str,
        lambda row: json.dumps(row.result.spec.labels, sort_keys=True) if row.result.spec.labels else None,
        "Labels of the run, as a JSON object.",
    ),
    ("started_at", str, lambda row: row.result.started_at, "UTC, ISO 8601."),
    ("sdk_version", str, lambda row: row.result.sdk_version, "Version of dlperf-sdk that wrote the result."),
)

COLUMNS: tuple[TableColumn, ...] = tuple(TableColumn(name, kind, help) for name, kind, _, help in _FIXED)
"""Columns that every table begins with."""


def columns(results: Iterable[Result]) -> tuple[TableColumn, ...]:
    """Return the columns of a table of these results: `COLUMNS`, then those of the metrics that any result has.

    The metrics are in alphabetical order, each with its value, the ends of its interval, and its unit.
    """
    return tuple(column for column, _ in _read(results))


def rows(results: Sequence[Result]) -> list[Row]:
    """Return one row per result, in order: name of the column → value, None if it is unknown.

    Every row has the same keys, the names of `columns`, in the same order. No records are read.
    """
    read = _read(results)
    return [
        {column.name: cell(column.kind, reader(row)) for column, reader in read}
        for row in map(_TableRow.from_result, results)
    ]


def _read(results: Iterable[Result]) -> list[tuple[TableColumn, _Reader]]:
    read_columns = [(column, reader) for column, (_, _, reader, _) in zip(COLUMNS, _FIXED, strict=True)]
    used = {column.name for column in COLUMNS}
    for name in sorted({metric.name for result in results for metric in result.metrics}):
        for part, kind, help in METRIC_PARTS:
            title = free_name(identifier(f"{name}_{part}" if part != "value" else name), used)
            read_columns.append((TableColumn(title, kind, help), _part(name, part)))
    return read_columns


METRIC_PARTS: tuple[tuple[str, Any, str], ...] = (
    ("value", float, "Median over the repeats."),
    ("low", float, "Lower end of the median's interval; none below six repeats."),
    ("high", float, "Its upper end."),
    ("unit", str, "Unit of the three."),
)
"""Attribute of a metric, type and description of the column for it."""


def _part(name: str, part: str) -> _Reader:
    return lambda row: getattr(row.metrics[name], part) if name in row.metrics else None


def identifier(name: str) -> str:
    """Return a name as an identifier that needs no quotes in Python or SQL: ASCII letters, digits and underscores.

    Each sequence of other characters becomes one underscore. A name that does not begin with a letter gets the prefix
    `metric_`.
    """
    plain = re.sub(r"[^0-9A-Za-z_]+", "_", name)
    return plain if plain[:1].isalpha() else f"metric_{plain}"


def free_name(name: str, used: set[str]) -> str:
    """Return `name` if it is not in `used`, else the first of `name_2`, `name_3`, … that is not.

    The returned name is added to `used`.
    """
    free, count = name, 2
    while free in used:
        free, count = f"{name}_{count}", count + 1
    used.add(free)
    return free


def cell(kind: Any, value: Any) -> Value:
    """Return a value as a cell of a column.

    Args:
        kind: Type of the column's cells: `str`, `int`, `float` or `bool`.
        value: The value; None stays None. In a column of texts, a value that is not text, such as a list, becomes JSON,
            an empty text becomes None, and control characters are replaced.

    Raises:
        TypeError, ValueError: The value cannot be converted to `kind`, or for texts to JSON.
    """
    if value is None:
        return None
    if kind is str:
        return _text(value if isinstance(value, str) else json.dumps(value, sort_keys=True)) or None
    plain: Value = kind(value)
    return plain


def _text(text: str) -> str:
    """Replace what steers a terminal and what no file in UTF-8 can hold: control characters and lone surrogates."""
    if text.isprintable():
        return text
    return replace_control_characters(text.encode("utf-8", "backslashreplace").decode("utf-8"))
