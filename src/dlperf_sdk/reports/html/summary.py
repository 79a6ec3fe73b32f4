"""The headline: how many results, how many are valid, and which are fastest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dlperf_sdk.reports.blocks import Cell
from dlperf_sdk.reports.html.page import Tile
from dlperf_sdk.reports.numbers import counted, quantity
from dlperf_sdk.reports.series import Workload, labels
from dlperf_sdk.results.result import Result

_MOST = 4
"""Workloads whose fastest case is a headline."""


def lede(results: Sequence[Result]) -> str:
    """Return a sentence on what was run, where and when."""
    specs = [result.spec for result in results]
    frameworks = listed(dict.fromkeys(spec.framework for spec in specs))
    models = listed(dict.fromkeys(spec.model for spec in specs))
    topologies = dict.fromkeys(str(spec.topology) for spec in sorted(specs, key=lambda s: s.topology.devices))
    days = sorted({result.started_at[:10] for result in results})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    count = counted(len(results), "result")
    return f"{models} in {frameworks}, on {listed(topologies)}; {count} measured {when} (UTC)."


_MOST = 6
"""Names that a sentence lists."""


def listed(names: Iterable[str]) -> str:
    """`a, b and c`; of many the first few, and how many more there are."""
    every = list(names)
    if len(every) > _MOST:
        return f"{', '.join(every[:_MOST])} and {len(every) - _MOST} more"
    return " and ".join(part for part in (", ".join(every[:-1]), every[-1]) if part) if every else ""


def tiles(
    results: Sequence[Result], outcomes: Sequence[Cell], workloads: Sequence[Workload]
) -> tuple[Tile, ...]:
    """The numbers that a reader sees first."""
    tones = [outcome.tone for outcome in outcomes]
    failed = sum(result.failure is not None for result in results)
    invalid = tones.count("bad") - failed
    valid = len(results) - failed - invalid
    warnings = tones.count("doubt")
    remarks = [
        *([f"{failed:,} failed"] if failed else []),
        *([f"{invalid:,} failed validation"] if invalid else []),
        *([f"{warnings:,} with warnings"] if warnings else []),
    ]
    total = (
        f"all {len(results):,}" if valid == len(results) and not remarks else f"{valid:,} of {len(results):,}"
    )
    validity = Tile(
        "Validity",
        f"{total} valid",
        "; ".join(remarks) or "every check passed",
        "bad" if invalid else "doubt" if remarks else "good",
    )
    return (validity, *fastest(workloads))


def fastest(workloads: Sequence[Workload]) -> tuple[Tile, ...]:
    """The highest throughput of each of the first few workloads."""
    found = []
    for workload in workloads[:_MOST]:
        named = zip(labels(workload.cases, ("topology", "batch_size")), workload.merged, strict=True)
        name, best = max(named, key=lambda item: item[1].case.throughput)
        interval = ""
        if best.low is not None and best.high is not None:
            interval = f" ({quantity(best.low, '')} – {quantity(best.high, '')})"
        aside = f"{name} on {best.case.topology}{interval}"
        found.append(Tile(f"Fastest: {workload.title}", quantity(best.case.throughput, workload.unit), aside))
    return tuple(found)
