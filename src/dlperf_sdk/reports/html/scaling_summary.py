"""The lowest and highest efficiency of each model and precision, and a row per series."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dlperf_sdk.reports.blocks import ABSENT, Cell, Column, Paragraph, Table
from dlperf_sdk.reports.html.page import Folded, Item, Sortable
from dlperf_sdk.reports.html.scaling_rows import GOOD_EFFICIENCY, Row, rows_of
from dlperf_sdk.reports.html.scaling_series import Series
from dlperf_sdk.reports.series import Workload

_PAGE_ROWS = 20
_LIMITED = "with another loader"
"""Title of the column with the efficiency of the same case with a faster loader."""
_BELOW = "falls below 90 %"
"""Title of the column with the topology of the first efficiency below 90 %."""


def summary_items(
    workloads: Sequence[tuple[Workload, Sequence[Series]]], limits: Mapping[int, str]
) -> tuple[Item, ...]:
    """Return a table of the lowest and highest efficiencies of each model and precision, and one of every series.

    Both have the steepest drop of the efficiency between two topologies, in percentage points per doubling of the
    devices. Series with fewer than two efficiencies are left out. A series that its data loader limits is not ranked.
    The tuple is empty with fewer than two series.

    Args:
        workloads: Workloads with their series, from `series_of`.
        limits: `id(series)` of each series that its data loader limits → the faster case as text, as
            `find_loader_limits` returns it for all series.
    """
    rows = rows_of(workloads, limits)
    if len(rows) < 2:
        return ()
    rule = "Not ranked: the data loader is the limit. With the loader in parentheses the case is over 5 % faster."
    return (
        _tabulate_extremes(rows),
        *([Paragraph(rule, "quiet")] if any(row.limit for row in rows) else []),
        _fold_series(rows),
    )


def _tabulate_extremes(rows: Sequence[Row]) -> Table:
    """Return the lowest and the highest efficiency of each model and precision, on the largest topology that it has.

    A row has a series with its efficiency on each topology. The rows of series that are not ranked come last in their
    model and precision.

    Args:
        rows: The series in their order.
    """
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.model, row.precision), []).append(row)
    topologies = sorted(
        {topology for row in rows for topology in row.efficiencies if topology.devices > 1},
        key=lambda topology: (topology.devices, topology.nodes),
    )
    cells: list[tuple[Cell | str, ...]] = [
        (
            *group,
            rank,
            f"{_describe(row)} ({row.limit})" if row.limit else _describe(row),
            *(_efficiency_cell(row.efficiencies.get(topology)) for topology in topologies),
            _format_drop(row),
            row.throughput,
        )
        for group, members in groups.items()
        for rank, row in _list_extremes(members)
    ]
    columns = (
        Column("model", key=True),
        Column("precision", key=True),
        Column("efficiency", whole=True, key=True),
        Column("case"),
        *(Column(str(topology), right=True) for topology in topologies),
        Column("steepest drop, points per doubling", whole=True),
        Column("throughput", right=True),
    )
    return Table(
        columns,
        tuple(cells),
        "Lowest and highest efficiency on the largest topology, by model and precision; amber: below 90 %",
    )


def _list_extremes(members: Sequence[Row]) -> Iterator[tuple[str, Row]]:
    """Yield the rank and the series of each row that a model and a precision have in the table."""
    ranked = [row for row in members if not row.limit]
    if ranked:
        lowest = ranked[0]
        *_, highest = (row for row in ranked if row.topology.devices == lowest.topology.devices)
        yield f"{'only series to' if highest is lowest else 'lowest on'} {lowest.topology}", lowest
        if highest is not lowest:
            yield f"highest on {highest.topology}", highest
    yield from (("not ranked", row) for row in members if row.limit)


def _efficiency_cell(share: float | None) -> Cell:
    return ABSENT if share is None else Cell(f"{share:.1%}", "doubt" if share < GOOD_EFFICIENCY else "plain")


def _describe(row: Row) -> str:
    """Return the name of a series with its version, its compiler, its batch size and what else is in its workload."""
    workload = row.workload.removeprefix(f"{row.model}, ").replace(" per device", "")
    name = row.name.replace(f" {row.precision}", "")
    framework, _, rest = name.partition(" ")
    described = " ".join(filter(None, (framework, row.version.partition("+")[0], rest)))
    compiler = "" if set(row.compiler.split()) & set(name.split()) else row.compiler
    return ", ".join(filter(None, (described, compiler, f"batch {workload}")))


def _format_drop(row: Row) -> str:
    return f"{row.step}: {100 * row.drop:.1f}" if row.drop else row.step


def _fold_series(rows: Sequence[Row]) -> Folded:
    columns = (
        Column("model", key=True),
        Column("precision", key=True),
        Column("workload", key=True),
        Column("case", key=True),
        Column("version", key=True),
        Column("topology", whole=True, key=True),
        Column("speedup", right=True),
        Column("efficiency", right=True),
        Column(_BELOW),
        Column("throughput", right=True),
        Column("steepest drop, points per doubling", right=True),
        Column("where", whole=True),
        Column(_LIMITED),
    )
    cells = [
        (
            row.model,
            row.precision,
            row.workload,
            ", ".join(filter(None, (row.name, row.compiler))),
            row.version,
            str(row.topology),
            f"{row.speedup:.2f}×",
            f"{row.efficiency:.1%}",
            row.below,
            row.throughput,
            f"{100 * row.drop:.1f}" if row.drop else "",
            row.step,
            row.limit,
        )
        for row in rows
    ]
    table = Table(
        columns,
        tuple(cells),
        "Efficiency of each series at its largest topology",
    )
    filters = ("model", "precision", "workload", "topology", _BELOW)
    return Folded("Every series", (Sortable(table.without_empty_columns(), filters, _PAGE_ROWS),))
