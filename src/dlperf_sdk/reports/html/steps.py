"""The section on the duration of every step of every repeat."""

from __future__ import annotations

from collections.abc import Sequence

from dlperf_sdk.errors import DocumentError
from dlperf_sdk.reports.blocks import Paragraph
from dlperf_sdk.reports.html import spread
from dlperf_sdk.reports.html.page import Item, Section
from dlperf_sdk.reports.html.results import names
from dlperf_sdk.reports.labels import batch_size
from dlperf_sdk.reports.numbers import common_scale
from dlperf_sdk.results import metrics
from dlperf_sdk.results.records import Repeat
from dlperf_sdk.results.result import Result

_MOST_UNREAD = 20
"""Number of results with unreadable records after which no more records are read."""


def section(results: Sequence[Result]) -> Section:
    """Return the section on step times, with a plot for each model and batch size.

    It has no items if nothing was measured. If there are more results than a plot can show, only the newest are
    plotted, and only their records are read. Errors in reading records are shown; after 20 of them, no more records
    are read.
    """
    title = "Step times"
    measured = [item for item in zip(names(results), results, strict=True) if item[1].repeats]
    newest = sorted(measured, key=lambda item: item[1].started_at, reverse=True)
    # Records are read only of results that are drawn: they are most of a store.
    timed, unread = _select_timed(newest if len(measured) > spread.MAX_VALUES else measured)
    items: list[Item] = []
    if len(measured) > spread.MAX_VALUES:
        text = f"{len(measured):,} results have repeats; the steps of the {len(timed)} newest are drawn."
        items.append(Paragraph(text, "quiet"))
    items += [Paragraph(message, "doubt") for message in unread]
    if not timed:
        return Section(title, tuple(items) if unread else ())
    for (model, batch), repeats_by_case in _group_by_workload(timed).items():
        groups = {
            name: [time for repeat in repeats for time in metrics.step_times(repeat)]
            for name, repeats in repeats_by_case
        }
        scale = common_scale([metrics.percentile(values, 50) for values in groups.values()], "s")
        title_of = f"Distribution of the step times: {model}, {batch} per device"
        items.append(spread.distributions(groups, scale, f"step time, {scale.unit}", title_of))
    clocks = {record.clock for _, _, repeats in timed for repeat in repeats for record in repeat.records}
    items.append(Paragraph(f"Clock: {', '.join(sorted(clocks))}.", "quiet"))
    lede = "Every measured step of every repeat; per step the slowest process counts. Nothing is trimmed."
    return Section(title, tuple(items), lede)


Timed = tuple[str, Result, tuple[Repeat, ...]]


def _select_timed(named: Sequence[tuple[str, Result]]) -> tuple[list[Timed], list[str]]:
    """Return the first results that have step times, with their repeats, and the errors of unreadable records."""
    timed: list[Timed] = []
    unread: list[str] = []
    for name, result in named:
        try:
            repeats = tuple(result.repeats)
        except DocumentError as error:
            unread.append(str(error))
        else:
            if any(repeat.records and all(r.step_times for r in repeat.records) for repeat in repeats):
                timed.append((name, result, repeats))
        if len(timed) == spread.MAX_VALUES or len(unread) == _MOST_UNREAD:
            break
    return timed, unread


def _group_by_workload(timed: Sequence[Timed]) -> dict[tuple[str, str], list[tuple[str, tuple[Repeat, ...]]]]:
    """Group by workload: steps of different models or batches are not comparable."""
    groups: dict[tuple[str, str], list[tuple[str, tuple[Repeat, ...]]]] = {}
    for name, result, repeats in timed:
        groups.setdefault((result.spec.model, batch_size(result.spec)), []).append((name, repeats))
    return groups
