"""How long the steps took: every step of every repeat."""

from __future__ import annotations

from collections.abc import Sequence

from dlperf_sdk import metrics
from dlperf_sdk.report.blocks import Paragraph
from dlperf_sdk.report.html import spread
from dlperf_sdk.report.html.page import Item, Section
from dlperf_sdk.report.html.results import names
from dlperf_sdk.report.numbers import common_scale
from dlperf_sdk.results.result import Result


def section(results: Sequence[Result]) -> Section:
    """The step times of all repeats of each case."""
    title = "Step times"
    timed = [(name, result) for name, result in zip(names(results), results, strict=True) if _timed(result)]
    if not timed:
        return Section(title, ())
    lede = "Every measured step of every repeat; per step the slowest process counts. Nothing is trimmed."
    items: list[Item] = []
    if len(timed) > spread.MOST:
        said = f"{len(timed):,} results have step times; those of the {spread.MOST} newest are drawn."
        items.append(Paragraph(said, "quiet"))
        timed = sorted(timed, key=lambda each: each[1].started_at, reverse=True)[: spread.MOST]
    clocks = sorted({record.clock for _, result in timed for r in result.repeats for record in r.records})
    for (model, batch), of in _by_workload(timed).items():
        groups = {
            name: [time for repeat in result.repeats for time in metrics.step_times(repeat)]
            for name, result in of
        }
        how = common_scale([metrics.percentile(values, 50) for values in groups.values()], "s")
        title_of = f"Distribution of the step times: {model}, {batch:,} per device"
        items.append(spread.distributions(groups, how, f"step time, {how.unit}", title_of, "steps"))
    items.append(Paragraph(f"Clock: {', '.join(clocks)}.", "quiet"))
    return Section(title, tuple(items), lede)


def _by_workload(timed: Sequence[tuple[str, Result]]) -> dict[tuple[str, int], list[tuple[str, Result]]]:
    """Steps of different models, or of different batches, are different work."""
    found: dict[tuple[str, int], list[tuple[str, Result]]] = {}
    for name, result in timed:
        found.setdefault((result.spec.model, result.spec.batch_size), []).append((name, result))
    return found


def _timed(result: Result) -> bool:
    return any(repeat.records and all(r.step_times for r in repeat.records) for repeat in result.repeats)
