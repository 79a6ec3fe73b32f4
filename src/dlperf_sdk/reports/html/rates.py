"""The section on the throughput of each workload, in several plots if there are many cases."""

from __future__ import annotations

from collections.abc import Sequence

from dlperf_sdk.analysis.case import Case, key
from dlperf_sdk.reports.blocks import Paragraph
from dlperf_sdk.reports.html import spread
from dlperf_sdk.reports.html.page import Abreast, Choice, Folded, Item, Section
from dlperf_sdk.reports.numbers import format_count
from dlperf_sdk.reports.series import Workload, labels

MAX_WORKLOADS = 40
"""Maximum number of workloads that are plotted, and of plots for each."""


def section(workloads: Sequence[Workload]) -> Section:
    """Return the section on throughput, with plots of the first `MAX_WORKLOADS` (40) workloads.

    Of several workloads, one is shown at a time; a paragraph counts those that are not plotted. Without workloads, the
    section has no items.

    Args:
        workloads: The workloads with their cases.
    """
    plots = [(workload.title, _plots(workload)) for workload in workloads[:MAX_WORKLOADS]]
    lede = (
        "Samples of all devices per second. The pale bar is the distribution-free 95 % interval of the median of the "
        "repeats, or of the runs where a case was run several times; a dot hides a narrower one."
    )
    return Section("Throughput", choose_workload(plots, len(workloads)), lede)


def choose_workload(parts: Sequence[tuple[str, tuple[Item, ...]]], count: int) -> tuple[Item, ...]:
    """Return the items to show for several workloads: those of a single one, or a `Choice` that shows one at a time.

    Args:
        parts: Title and items of each plotted workload; may be empty.
        count: Number of all workloads. If it exceeds `MAX_WORKLOADS` (40), a paragraph at the end states how many are
            not plotted.
    """
    items: list[Item] = list(parts[0][1]) if len(parts) == 1 else []
    if len(parts) > 1:
        items.append(Choice("plots of", tuple(Folded(title, folded) for title, folded in parts)))
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
    names = _short_labels([run.case for run in runs])
    values = [
        spread.Value(
            f"{name} {run.case.topology}".lstrip() + (f" ({run.runs} runs)" if run.runs > 1 else ""),
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


def _short_labels(cases: Sequence[Case]) -> list[str]:
    """Return labels that tell the cases apart, without the framework or precision that all of them share."""
    shared = [
        name
        for name in ("framework", "precision")
        if len(cases) > 1 and len({key(case.facts.get(name)) for case in cases}) == 1
    ]
    return labels(cases, ("topology", "batch_size", *shared))
