"""What scales worst and best: a row per model and precision, and a row per series."""

from __future__ import annotations

from collections.abc import Sequence

from dlperf_sdk.reports.blocks import Column, Paragraph, Table
from dlperf_sdk.reports.html.page import Folded, Item, Sortable
from dlperf_sdk.reports.html.scaling_rows import Row, rows_of
from dlperf_sdk.reports.html.scaling_series import (
    Series,
)
from dlperf_sdk.reports.series import Workload
from dlperf_sdk.spec.values import TopologySpec

_PAGE_ROWS = 20
_LIMITED = "limited by its loader"
_BELOW = "falls below 90 %"
"""Title of the column with the topology of the first efficiency below 90 %."""


def summary_items(workloads: Sequence[tuple[Workload, Sequence[Series]]]) -> tuple[Item, ...]:
    """Return a table of the worst and best series of each model and precision, and a table with a row per series.

    Both name where the efficiency falls below 90 %, and the steepest drop of the efficiency between two
    topologies, in percentage points per doubling of the devices. Series with fewer than two efficiencies are left out.
    A series that its loader limits is not named as the worst: a sentence lists these. Another one lists the series that
    its loader may limit. The result is empty with fewer than two series.

    Args:
        workloads: Workloads with their series, from `series_of`.
    """
    rows = rows_of(workloads)
    if len(rows) < 2:
        return ()
    sentences = {
        "Not named as the worst, because the data loader limits it": _list(rows, [row.limit for row in rows]),
        "Probably limited by the data loader, because a faster loader reaches more with smaller batches": _list(
            rows, [row.suspicion for row in rows]
        ),
    }
    items = [Paragraph(f"{text}: {listed}.", "doubt") for text, listed in sentences.items() if listed]
    return _tabulate_extremes([row for row in rows if not row.limit] or rows), *items, _fold_series(rows)


def _list(rows: Sequence[Row], remarks: Sequence[str]) -> str:
    """Return the series that have a remark, with their efficiency and the remark."""
    return "; ".join(
        f"{_describe(row, [])}: {row.efficiency:.1%} ({remark})"
        for row, remark in zip(rows, remarks, strict=True)
        if remark
    )


def _tabulate_extremes(rows: Sequence[Row]) -> Table:
    """Return the worst and the best series of each model and precision, on the largest topology that it has.

    If that has several nodes, a column has the worst series on a single node, which may be another one.

    Args:
        rows: The series in their order.
    """
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.model, row.precision), []).append(row)
    cells = []
    for (model, precision), members in groups.items():
        worst = members[0]
        best = [row for row in members if row.topology.devices == worst.topology.devices][-1]
        cells.append(
            (
                model,
                precision,
                _describe_extreme(worst, members),
                _describe_worst_on_node(members),
                worst.below,
                _format_drop(worst),
                "the only series" if best is worst else _describe_extreme(best, members),
            )
        )
    columns = (
        Column("model", key=True),
        Column("precision", key=True),
        Column("scales worst"),
        Column("worst on one node"),
        Column(_BELOW),
        Column("steepest drop per doubling"),
        Column("scales best"),
    )
    table = Table(columns, tuple(cells), "What scales worst and best, for each model and precision")
    return table if any(row.topology.nodes > 1 for row in rows) else table.without_empty_columns()


def _describe_extreme(row: Row, members: Sequence[Row]) -> str:
    text = f"{row.efficiency:.1%} on {row.topology}: {_describe(row, members)}; {row.throughput}"
    return f"{text}; probably limited by its data loader" if row.suspicion else text


def _describe_worst_on_node(members: Sequence[Row]) -> str:
    """Return the worst series on the largest topology of a single node; empty if no series has more nodes."""
    if all(row.topology.nodes == 1 for row in members):
        return ""
    shares = [(*row.on_node, row) for row in members if row.on_node]
    if not shares:
        return "not measured"
    largest = max(topology.devices for topology, *_ in shares)
    topology, share, row = min((entry for entry in shares if entry[0].devices == largest), key=_share)
    return f"{share:.1%} on {topology}: {'the same' if row is members[0] else _describe(row, [])}"


def _share(entry: tuple[TopologySpec, float, Row]) -> float:
    return entry[1]


def _describe(row: Row, members: Sequence[Row]) -> str:
    """Return the name of a series with its workload, and whether it is the only one of its framework.

    Args:
        row: The series.
        members: All series of its model and precision.
    """
    workload = row.workload.removeprefix(f"{row.model}, ").replace(" per device", "")
    name = row.name.replace(f" {row.precision}", "")
    framework, _, rest = name.partition(" ")
    described = " ".join(filter(None, (framework, row.version.partition("+")[0], rest)))
    siblings = [other for other in members if other.name.partition(" ")[0] == framework]
    compiler = "" if set(row.compiler.split()) & set(name.split()) else row.compiler
    only = f"the only series of {framework}" if len(members) > len(siblings) == 1 else ""
    return ", ".join(filter(None, (described, compiler, f"batch {workload}", only)))


def _format_drop(row: Row) -> str:
    return f"{row.step}: {100 * row.drop:.1f} points" if row.drop else row.step


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
            f"yes: {row.limit}" if row.limit else "not known",
        )
        for row in rows
    ]
    absent = {
        *(() if any(row.version for row in rows) else ("version",)),
        *(() if any(row.limit for row in rows) else (_LIMITED,)),
    }
    table = Table(columns, tuple(cells), "Efficiency of each series at its largest topology").select(
        [index for index, column in enumerate(columns) if column.title not in absent]
    )
    filters = ("model", "precision", "workload", "topology", _BELOW, _LIMITED)
    return Folded("Every series", (Sortable(table, filters, _PAGE_ROWS),))
