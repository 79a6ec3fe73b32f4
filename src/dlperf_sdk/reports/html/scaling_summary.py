"""The lowest and highest efficiencies of each model and precision, and a row per series."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dlperf_sdk.reports.blocks import ABSENT, Cell, Column, Paragraph, Table
from dlperf_sdk.reports.html.page import Folded, Item, Sortable
from dlperf_sdk.reports.html.scaling_rows import GOOD_EFFICIENCY, Row, rows_of
from dlperf_sdk.reports.html.scaling_series import Series
from dlperf_sdk.reports.series import Workload
from dlperf_sdk.spec.values import TopologySpec

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
    devices. Series with fewer than two efficiencies are left out. A series that its data loader limits is in the
    second table only, and a paragraph lists these series. The tuple is empty with fewer than two series.

    Args:
        workloads: Workloads with their series, from `series_of`.
        limits: `id` of each series that its data loader limits → the faster case as text, from `find_loader_limits`
            for all series.
    """
    rows = rows_of(workloads, limits)
    if len(rows) < 2:
        return ()
    limited = "; ".join(
        f"{row.model} {row.precision}: {row.efficiency:.1%}, {_describe(row)} ({row.limit})"
        for row in rows
        if row.limit
    )
    rule = (
        "Not ranked, because the data loader limits them: the same case is more than 5 % faster with another loader, "
        f"at an equal or smaller batch. {limited}."
    )
    ranked = [row for row in rows if not row.limit]
    return (
        *([_tabulate_extremes(ranked)] if ranked else []),
        *([Paragraph(rule, "doubt")] if limited else []),
        _fold_series(rows),
    )


def _tabulate_extremes(rows: Sequence[Row]) -> Table:
    """Return the lowest and the highest efficiency of each model and precision, on the largest topology that it has.

    A row has a series with its efficiency on each topology. If another series is the lowest on a single node, it has a
    row as well.

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
            _describe(row),
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
        columns, tuple(cells), "Lowest and highest efficiency of each model and precision; amber: below 90 %"
    )


def _list_extremes(members: Sequence[Row]) -> Iterator[tuple[str, Row]]:
    """Yield the rank and the series of each row that a model and a precision have in the table."""
    lowest = members[0]
    *_, highest = (row for row in members if row.topology.devices == lowest.topology.devices)
    yield f"{'only series to' if highest is lowest else 'lowest on'} {lowest.topology}", lowest
    shares = [
        (topology, share, row)
        for row in members
        for topology, share in row.efficiencies.items()
        if topology.nodes == 1 < topology.devices
    ]
    if lowest.topology.nodes > 1 and shares:
        devices = max(topology.devices for topology, *_ in shares)
        node, _, row = min((entry for entry in shares if entry[0].devices == devices), key=_share)
        if row is not lowest:
            yield f"lowest on {node}", row
    if highest is not lowest:
        yield f"highest on {highest.topology}", highest


def _share(entry: tuple[TopologySpec, float, Row]) -> float:
    return entry[1]


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
    table = Table(columns, tuple(cells), "Efficiency of each series at its largest topology")
    filters = ("model", "precision", "workload", "topology", _BELOW)
    return Folded("Every series", (Sortable(table.without_empty_columns(), filters, _PAGE_ROWS),))
