"""Throughput, a plot per workload."""

from __future__ import annotations

from collections.abc import Sequence

from dlperf_sdk.reports.html import spread
from dlperf_sdk.reports.html.page import Folded, Item, Plot, Section
from dlperf_sdk.reports.numbers import counted
from dlperf_sdk.reports.series import Workload, labels

OPEN = 3
"""Workloads that are shown at once; others on request."""
MOST = 24
"""Workloads that are plotted at all."""


def section(workloads: Sequence[Workload]) -> Section:
    """Return the throughput section, with one plot per workload."""
    plots = [(workload.title, _plot(workload)) for workload in workloads[:MOST]]
    lede = (
        "Samples of all devices per second. The pale bar is the interval of the median (95 %, distribution-free), or "
        "the lowest and highest of several runs of one case."
    )
    return Section("Throughput", folded([(title, (plot,)) for title, plot in plots], len(workloads)), lede)


def folded(parts: Sequence[tuple[str, tuple[Item, ...]]], of: int) -> tuple[Item, ...]:
    """The first few workloads open, the others on request, and how many there is no room for."""
    from dlperf_sdk.reports.blocks import Paragraph

    items: list[Item] = [item for _, shown in parts[:OPEN] for item in shown]
    items += [Folded(title, shown) for title, shown in parts[OPEN:]]
    if of > MOST:
        items.append(
            Paragraph(f"{counted(of - MOST, 'more workload')} not plotted; the tables hold them.", "quiet")
        )
    return tuple(items)


def _plot(workload: Workload) -> Plot:
    names = labels(workload.cases, ("topology", "batch_size"))
    kinds = [f"{case.facts.get('framework')} {case.facts.get('precision')}" for case in workload.cases]
    values = [
        spread.Value(
            f"{name} {merged.case.topology}" + (f" ({merged.runs} runs)" if merged.runs > 1 else ""),
            f"{kind} {merged.case.topology}",
            str(merged.case.facts.get("framework")),
            merged.case.throughput,
            merged.low,
            merged.high,
        )
        for name, kind, merged in zip(names, kinds, workload.merged, strict=True)
    ]
    return spread.plot(values, "throughput", workload.unit, f"Throughput: {workload.title}")
