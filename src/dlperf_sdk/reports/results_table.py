"""Several results in tables, one row each. A table never mixes workloads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from attrs import define

from dlperf_sdk.interfaces.measurer import Metric
from dlperf_sdk.reports import attribution, traces
from dlperf_sdk.reports.blocks import Block, Cell, Column, Heading, Notes, Paragraph, Table, interval_cell
from dlperf_sdk.reports.context import differing_context
from dlperf_sdk.reports.labels import batch_size, format_value, outcome
from dlperf_sdk.reports.numbers import Scale, common_scale
from dlperf_sdk.reports.sweeps import swept_size
from dlperf_sdk.results.consistency import WITH_RECORDS, list_contradictions_by_result
from dlperf_sdk.results.result import Fact, Result
from dlperf_sdk.spec.data_source import DATA_SOURCES

_ALWAYS = ("framework", "topology", "precision")
"""Factors that always name a case. Other factors do so only if the cases differ in them."""
_COLUMNS = (
    ("throughput", "", "value"),
    ("throughput", "95 % interval", "interval"),
    ("throughput-per-device", "per device", "value"),
    ("step-time-median", "step", "value"),
    ("peak-device-memory", "memory", "value"),
    ("mfu", "MFU", "value"),
)
"""Metric, heading, and part of the metric. A metric that no row has gets no column."""

UNREAD = (
    f"Of more than {WITH_RECORDS} results the records are not read here: `dlperf validate DIR` holds each result "
    "against its own."
)


@define
class Group:
    """Results of one workload."""

    workload: dict[str, Any]
    """Name of each fact that the results share → its value."""
    results: list[Result]
    """The results of the workload, at least one."""


def pages(results: Sequence[Result]) -> list[Block]:
    """Return a heading and a table of results for each workload, and paragraphs on how the workloads differ.

    Workloads that differ in one size only, such as the batch size, form a sweep in a single table. If there are at
    most `WITH_RECORDS` (60) results, their records are read to check them for contradictions. Attributions of step
    times and summaries of traces follow, where results have them. Without results there are no blocks.
    """
    groups = group_by_workload(results)
    contradictions = list_contradictions_by_result(results)
    outcomes = {
        id(result): outcome(result, peers) for result, peers in zip(results, contradictions, strict=True)
    }
    differing = {
        name
        for name in {name for group in groups for name in group.workload}
        if len({_key(group.workload[name]) for group in groups if name in group.workload}) > 1
    }
    blocks: list[Block] = []
    swept = _swept(groups, differing)
    if swept:
        groups = [_swept_group(groups, swept)]
        values = ", ".join(dict.fromkeys(str(value) for value in _values(groups[0], swept)))
        blocks.append(Paragraph(f"A sweep of {swept.replace('_', ' ')}: {values}.", "quiet"))
    elif len(groups) > 1:
        names = ", ".join(sorted(differing))
        text = f"{len(groups)} workloads, which cannot be compared: they differ in {names}."
        blocks.append(Paragraph(text, "doubt"))
    for group in groups:
        blocks += _table(group, differing, [outcomes[id(result)] for result in group.results], swept)
    if len(results) > WITH_RECORDS:
        blocks.append(Paragraph(UNREAD, "quiet"))
    attributions = attribution.tables(results)
    if attributions:
        blocks += [Heading(attribution.TITLE), Paragraph(attribution.EXPLANATION, "quiet"), *attributions]
    traced = traces.tables(results)
    if traced:
        blocks += [Heading(traces.TITLE), Paragraph(traces.EXPLANATION, "quiet"), *traced]
    return blocks


def _swept(groups: Sequence[Group], differing: set[str]) -> str | None:
    """Return the size in which the workloads differ, if each states it as a number, and else states the same facts."""
    swept = swept_size(differing)
    if swept is None or len({frozenset(group.workload) for group in groups}) > 1:
        return None
    return swept if all(isinstance(group.workload[swept], int) for group in groups) else None


def _swept_group(groups: Sequence[Group], swept: str) -> Group:
    """Return the results of a sweep as one group, the sizes of each case next to each other."""
    results = [result for group in groups for result in group.results]
    shared = {name: value for name, value in groups[0].workload.items() if name != swept}
    cases = [_key(_treatments(result)) for result in results]
    order = {case: number for number, case in reversed(list(enumerate(cases)))}
    group = Group(shared, results)
    sized = zip(results, cases, _values(group, swept), strict=True)
    return Group(
        shared, [result for result, _, _ in sorted(sized, key=lambda entry: (order[entry[1]], entry[2]))]
    )


def _values(group: Group, swept: str) -> list[Any]:
    return [_workload(result).get(swept) or 0 for result in group.results]


def group_by_workload(results: Sequence[Result]) -> list[Group]:
    """Return the results grouped by workload, in the order of first occurrence.

    The result of a case that was refused before it had a plan has fewer facts. It belongs to the first workload that
    agrees with these facts and has a result with the same requested options; else it is a separate group.
    """
    by_key: dict[str, Group] = {}
    refused = []
    for result in results:
        if result.workload is None and result.imported is None:
            refused.append(result)
            continue
        facts = _workload(result)
        by_key.setdefault(_key(facts), Group(facts, [])).results.append(result)
    groups = list(by_key.values())
    for result in refused:
        facts = {**_workload(result), **result.spec.options}
        for group in groups:
            agrees = all(_key(group.workload.get(name)) == _key(value) for name, value in facts.items())
            if agrees and any(member.spec.options == result.spec.options for member in group.results):
                group.results.append(result)
                break
        else:
            groups.append(Group(facts, [result]))
    return groups


def _workload(result: Result) -> dict[str, Any]:
    """Return the facts that must be equal for two results to be of one workload.

    Little is known of an imported result, so the importer is one of these facts.
    """
    workload = {fact.name: _value_of(fact) for fact in result.facts if fact.role == "workload"}
    return {**workload, "imported": "no" if result.imported is None else result.imported.importer}


def _value_of(fact: Fact) -> Any:
    """Return the observed value of a fact, or the requested value if none was observed."""
    return fact.requested if fact.observed is None else fact.observed


def _key(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _table(group: Group, differing: set[str], outcomes: Sequence[Cell], swept: str | None) -> list[Block]:
    # Options that a user set are part of the workload, and say how large it is: an image size, say.
    chosen = {name for result in group.results for name in result.spec.options}
    parts = [
        f"{name} {format_value(group.workload[name])}"
        for name in sorted((differing | chosen) - {"model", "batch_size", swept})
        if name in group.workload
    ]
    batch = [] if swept == "batch_size" else [f"batch size {group.workload.get('batch_size')} per device"]
    description = "; ".join([*batch, *parts])
    sizes = [[str(value)] for value in _values(group, swept)] if swept else [[] for _ in group.results]
    cases, common = _cases([_treatments(result) for result in group.results])
    contexts, notes = differing_context(group.results), dict[str, int]()
    # Of one device, the batch and the throughput in all are those per device.
    is_single = all(result.spec.topology.devices == 1 for result in group.results)
    metric_columns = [
        _column(group.results, *column)
        for column in _COLUMNS
        if not (is_single and column[0] == "throughput-per-device")
    ]
    measured = [column for column in metric_columns if column is not None]
    rows: list[tuple[Cell | str, ...]] = [
        (
            case,
            *sizes[index],
            *([] if is_single else [batch_size(result.spec, result.spec.topology.devices)]),
            *(cells[index] for _, cells in measured),
            _verdict(result, outcome, contexts[index], notes),
        )
        for index, (case, result, outcome) in enumerate(zip(cases, group.results, outcomes, strict=True))
    ]
    columns = (
        Column("case"),
        *([Column(_heading(swept), right=True)] if swept else []),
        *([] if is_single else [Column("batch", right=True)]),
        *(Column(title, right=True) for title, _ in measured),
        Column("ok?", whole=True),
    )
    blocks: list[Block] = [Heading(str(group.workload.get("model", "")), Cell(description, "quiet"))]
    if common:
        blocks.append(Paragraph(f"All with {common}.", "quiet"))
    blocks.append(Table(columns, tuple(rows)))
    return [*blocks, Notes(tuple(notes))] if notes else blocks


def _heading(swept: str) -> str:
    return "batch per device" if swept == "batch_size" else swept.replace("_", " ")


def _treatments(result: Result) -> dict[str, str]:
    levels = {fact.name: str(_value_of(fact)) for fact in result.facts if fact.role == "factor"}
    # A single device synchronizes nothing, whatever the strategy.
    implied = ("strategy",) if result.spec.topology.devices == 1 else ()
    # No factor, but cases that differ in nothing else must be told apart.
    levels["data"] = result.spec.data.source
    return {
        name: value for name, value in levels.items() if value not in ("None", "auto") and name not in implied
    }


def _cases(factors: Sequence[dict[str, str]]) -> tuple[list[str], str]:
    """Return a name for each case, and a phrase of the other factors that all cases share."""
    names = list(dict.fromkeys(name for levels in factors for name in levels))
    differing = [
        name for name in names if len({levels.get(name) for levels in factors if name in levels}) > 1
    ]
    differing.sort(key="data".__eq__)  # last, as in the title of a case
    named = [*_ALWAYS, *(name for name in differing if name not in _ALWAYS)]
    cases = [" ".join(levels[name] for name in named if name in levels) for levels in factors]
    shared = [
        f"{name} {factors[0][name]}"
        for name in names
        if name not in named
        and all(name in levels for levels in factors)
        and len(factors) > 1
        and (name, factors[0][name]) != ("data", DATA_SOURCES.default)
    ]
    return cases, ", ".join(shared)


def _column(results: Sequence[Result], name: str, heading: str, note: str) -> tuple[str, list[Cell]] | None:
    """Return a metric's column, all rows in one unit; None if no result has the metric, or its interval."""
    metrics = [result.metric(name) for result in results]
    known = [metric for metric in metrics if metric is not None]
    if not known or len({metric.unit for metric in known}) > 1:
        return None
    scale = common_scale([metric.value for metric in known], known[0].unit)
    if note == "interval" and all(metric.low is None for metric in known):
        return None
    if note == "interval":
        return heading, [_interval(metric, scale) for metric in metrics]
    cells = [Cell("" if metric is None else scale(metric.value)) for metric in metrics]
    # The first column has the unit of the throughputs.
    unit = "" if name == "throughput-per-device" else scale.unit
    return ", ".join(part for part in (heading, unit) if part), cells


def _interval(metric: Metric | None, scale: Scale) -> Cell:
    return Cell("") if metric is None else interval_cell(metric.low, metric.high, scale.interval)


def _verdict(result: Result, outcome: Cell, context: Sequence[str], notes: dict[str, int]) -> Cell:
    """Return the mark of a verdict, with the numbers of notes on what did not pass and on what differs in context."""
    texts = ["; ".join(context)] if context else []
    if outcome.text == "ok":
        mark = "✓ ok"
    else:
        mark = "✗" if outcome.tone == "bad" else "?"
        reason = outcome.text if result.failure is None else f"{outcome.text}: {result.failure.message}"
        texts = [reason, *texts]
    numbers = "".join(f"[{notes.setdefault(text, len(notes) + 1)}]" for text in texts)
    return Cell(f"{mark} {numbers}".rstrip(), "good" if outcome.text == "ok" else outcome.tone)
