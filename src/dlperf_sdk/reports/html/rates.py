"""The section on the throughput of each workload, in several plots if there are many cases."""

from __future__ import annotations

from collections.abc import Sequence

from dlperf_sdk.reports.blocks import Paragraph
from dlperf_sdk.reports.html import spread
from dlperf_sdk.reports.html.page import Abreast, Folded, Item, Section
from dlperf_sdk.reports.numbers import format_count
from dlperf_sdk.reports.series import Workload, labels

OPEN = 1
"""Number of workloads that are shown at once; the others are folded."""
MAX_WORKLOADS = 24
"""Maximum number of workloads that are plotted, and of plots for each."""


def section(workloads: Sequence[Workload]) -> Section:
    """Return the throughput section, with plots of the first `MAX_WORKLOADS` workloads."""
    plots = [(workload.title, _plots(workload)) for workload in workloads[:MAX_WORKLOADS]]
    lede = (
        "Samples of all devices per second. The pale bar is the distribution-free 95 % interval of the median, of at "
        "least six repeats, or of as many runs where a case was run several times."
    )
    return Section("Throughput", fold_workloads(plots, len(workloads)), lede)


def fold_workloads(parts: Sequence[tuple[str, tuple[Item, ...]]], count: int) -> tuple[Item, ...]:
    """Return the items of the first workload, and those of each other workload folded under its title.

    Args:
        parts: Title and items of each plotted workload.
        count: Number of all workloads; a paragraph states how many are not plotted.
    """
    items: list[Item] = [item for _, folded in parts[:OPEN] for item in folded]
    items += [Folded(title, folded) for title, folded in parts[OPEN:]]
    if count > MAX_WORKLOADS:
        items.append(
            Paragraph(
                f"{format_count(count - MAX_WORKLOADS, 'more workload')} not plotted; the tables hold them.",
                "quiet",
            )
        )
    return tuple(items)


def _plots(workload: Workload) -> tuple[Item, ...]:
    """Return one plot, or a facet for each topology and precision; the most devices come first."""
    runs = sorted(workload.merged, key=lambda run: (-run.case.topology.devices, run.case.topology.nodes))
    names = labels([run.case for run in runs], ("topology", "batch_size"))
    values = [
        spread.Value(
            f"{name} {run.case.topology}" + (f" ({run.runs} runs)" if run.runs > 1 else ""),
            f"{run.case.topology} {run.case.facts.get('precision')}",
            str(run.case.facts.get("framework")),
            run.case.throughput,
            run.low,
            run.high,
        )
        for name, run in zip(names, runs, strict=True)
    ]
    plots = spread.plots(values, "throughput", workload.unit, f"Throughput: {workload.title}", MAX_WORKLOADS)
    return (Abreast(tuple(plots)),) if len(plots) > 1 else tuple(plots)
