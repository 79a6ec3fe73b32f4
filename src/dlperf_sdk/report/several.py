"""Several results side by side: a row each, and never two workloads in one table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from attrs import define

from dlperf_sdk.report.blocks import Block, Cell, Column, Heading, Paragraph, Table
from dlperf_sdk.report.numbers import quantity
from dlperf_sdk.report.single import interval, verdicts_in_short
from dlperf_sdk.results.result import Fact, Result

_ALWAYS = ("framework", "topology", "precision")
"""Treatments that every table shows; others only where they differ."""
_METRICS = (
    ("throughput", "throughput"),
    ("throughput-per-device", "per device"),
    ("step-time-median", "step"),
    ("peak-device-memory", "device mem."),
    ("peak-host-memory", "host mem."),
    ("mfu", "MFU"),
)
"""Metrics of a row, and how they are headed; those that no row has are left out."""


@define
class Group:
    """Results of one workload."""

    workload: dict[str, Any]
    results: list[Result]


def pages(results: Sequence[Result]) -> list[Block]:
    """A table per workload. Where there are several, each says in what it differs from the others."""
    groups = grouped(results)
    differing = {
        name
        for name in {name for group in groups for name in group.workload}
        if len({_key(group.workload.get(name)) for group in groups}) > 1
    }
    blocks: list[Block] = []
    if len(groups) > 1:
        names = ", ".join(sorted(differing))
        text = f"{len(groups)} workloads, which cannot be compared: they differ in {names}."
        blocks.append(Paragraph(text, "doubt"))
    for group in groups:
        blocks += _table(group, differing)
    return blocks


def grouped(results: Sequence[Result]) -> list[Group]:
    """The results by workload, in the order of their first.

    A case that was refused before it had a plan knows fewer facts than one that ran: it belongs to the first
    workload that agrees in all of them.
    """
    groups: list[Group] = []
    refused = [result for result in results if result.workload is None]
    for result in results:
        if result.workload is None:
            continue
        facts = _workload(result)
        for group in groups:
            if _key(group.workload) == _key(facts):
                group.results.append(result)
                break
        else:
            groups.append(Group(facts, [result]))
    for result in refused:
        facts = {**_workload(result), **result.spec.options}
        for group in groups:
            if all(_key(group.workload.get(name)) == _key(value) for name, value in facts.items()):
                group.results.append(result)
                break
        else:
            groups.append(Group(facts, [result]))
    return groups


def _workload(result: Result) -> dict[str, Any]:
    return {fact.name: value_of(fact) for fact in result.facts if fact.role == "workload"}


def value_of(fact: Fact) -> Any:
    """What a fact really was: as observed, else as requested."""
    return fact.requested if fact.observed is None else fact.observed


def _key(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _table(group: Group, differing: set[str]) -> list[Block]:
    model = str(group.workload.get("model", ""))
    said = [f"{name} {_shown(group.workload[name])}" for name in sorted(differing) if name in group.workload]
    aside = Cell(
        ", ".join(said) if said else f"batch size {group.workload.get('batch_size')} per device", "quiet"
    )
    treatments = [_treatments(result) for result in group.results]
    names = [name for name in _ALWAYS if any(name in each for each in treatments)]
    others = sorted({name for each in treatments for name in each} - set(names))
    names += [name for name in others if len({_key(each.get(name)) for each in treatments}) > 1]
    metrics = [
        (name, heading)
        for name, heading in _METRICS
        if any(result.metric(name) is not None for result in group.results)
    ]
    columns = [Column(name) for name in names]
    columns += [Column("global batch", right=True)]
    for name, heading in metrics:
        columns.append(Column(heading, right=True))
        if name == "throughput":
            columns.append(Column("95 % interval", right=True))
    columns.append(Column("verdict"))
    rows = []
    for result, treated in zip(group.results, treatments, strict=True):
        row: list[Cell | str] = [_shown(treated.get(name)) for name in names]
        row.append(f"{result.spec.global_batch_size:,}")
        for name, _ in metrics:
            row += _metric(result, name)
        row.append(verdicts_in_short(result))
        rows.append(tuple(row))
    return [Heading(model, aside), Table(tuple(columns), tuple(rows))]


def _treatments(result: Result) -> dict[str, Any]:
    return {fact.name: value_of(fact) for fact in result.facts if fact.role == "treatment"}


def _metric(result: Result, name: str) -> list[Cell | str]:
    metric = result.metric(name)
    if metric is None:
        return ["", ""] if name == "throughput" else [""]
    cells: list[Cell | str] = [quantity(metric.value, metric.unit)]
    if name == "throughput":
        cells.append(interval(metric))
    return cells


def _shown(value: Any) -> str:
    return "" if value is None else str(value)
