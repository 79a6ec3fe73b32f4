"""The report on one result: what was measured, whether it is valid, and under which conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from dlperf_sdk.interfaces.measurer import Metric
from dlperf_sdk.reports import traces
from dlperf_sdk.reports.blocks import (
    Block,
    Cell,
    Column,
    Heading,
    Labels,
    Notes,
    Paragraph,
    Table,
    interval_cell,
)
from dlperf_sdk.reports.labels import batch_size, format_value, mark_outcome, outcome, title
from dlperf_sdk.reports.numbers import format_count, quantity, scale
from dlperf_sdk.reports.run_context import list_run_context
from dlperf_sdk.reports.wording import list_details
from dlperf_sdk.results.consistency import list_contradictions
from dlperf_sdk.results.result import Imported, Result, Verdict
from dlperf_sdk.results.summary import KINDS, explain_missing_interval
from dlperf_sdk.spec.part import PARTS
from dlperf_sdk.spec.protocol import PROTOCOLS
from dlperf_sdk.spec.values import format_scalar


def page(result: Result, directory: Path | None = None) -> list[Block]:
    """Return the report on a result. Its records are read to check it for contradictions.

    The blocks are the case with its outcome, a failure, contradictions, the metrics, the verdicts by kind, traces, the
    context, and notes; what does not exist is left out. Records that cannot be read are a contradiction, not an error.

    Args:
        result: The result.
        directory: The result's directory, which the report names; None if it has none.
    """
    errors = list_contradictions(result)
    blocks: list[Block] = [Heading(title(result), outcome(result, errors)), _case(result)]
    if result.failure is not None:
        blocks.append(Paragraph(result.failure.message, "bad"))
    if errors:
        text = "This file contradicts itself, as one that was edited does: "
        blocks.append(Paragraph(text + " ".join(errors), "bad"))
    notes = _Notes()
    if result.metrics:
        blocks.append(_metrics(result.metrics, notes))
        if all(metric.low is None for metric in result.metrics):
            blocks.append(Paragraph(explain_missing_interval(result, result.metrics), "quiet"))
    for kind, heading in KINDS:
        verdicts = [verdict for verdict in result.verdicts if verdict.kind == kind]
        if verdicts:
            blocks.append(_verdicts(verdicts, heading))
    blocks += traces.tables([result])
    blocks.append(Labels(list_run_context(result, directory)))
    if notes.texts:
        blocks.append(Notes(tuple(notes.texts)))
    return blocks


def _batch(result: Result) -> str:
    """Format the batch size per device, the global one, and the number of micro-batches if there are several."""
    spec = result.spec
    devices = format_count(spec.topology.devices, "device")
    if spec.wants_max_batch:
        return f"the largest per device × {devices}; none was found"
    text = f"{batch_size(spec)} per device × {devices} = {batch_size(spec, spec.topology.devices)}"
    return f"{text}, in {spec.accumulation} micro-batches" if spec.accumulation > 1 else text


def _case(result: Result) -> Labels:
    if result.imported is not None:
        return _imported_facts(result, result.imported)
    spec, workload = result.spec, result.workload
    protocol = spec.resolved_protocol()
    repeats = format_count(len(result.repeats), "repeat")
    if len(result.repeats) < protocol.repeats:
        repeats = f"{len(result.repeats)} of {protocol.repeats} repeats"
    pairs = [("Batch", _batch(result))]
    if workload is not None:
        flops = quantity(workload.flops_per_sample, "FLOP")
        work = f", {flops} per sample and training step" if workload.flops_per_sample else ""
        pairs.append(("Model", f"{workload.parameters:,} parameters{work}"))
    if not spec.is_whole_step:
        pairs.append(("Part", f"{spec.part} alone: a step {PARTS[spec.part].step}"))
    if spec.options:
        pairs.append(
            ("Options", ", ".join(f"{name} = {format_scalar(value)}" for name, value in spec.options.items()))
        )
    changed = "" if protocol == PROTOCOLS[protocol.name] else ", changed"
    pairs.append(
        (
            "Protocol",
            f"{protocol.name}{changed}: {protocol.warmup} warm-up + {protocol.steps} measured steps, {repeats}",
        )
    )
    pairs.append(("Data", str(spec.data)))
    observed = next((fact.observed for fact in result.facts if fact.name == "data"), None)
    if isinstance(observed, Mapping) and len(observed) > 1:
        pairs.append(("Input", list_details(observed)))
    if result.stopping is not None and result.stopping.rule != "fixed":
        pairs.append(("Stopping", result.stopping.detail))
    return Labels(tuple(pairs))


def _imported_facts(result: Result, imported: Imported) -> Labels:
    """Return the known facts of a case that another program measured, and the importer, estimator and logs."""
    known = [
        f"{fact.name.replace('_', ' ')} {format_value(value)}"
        for fact in result.facts
        if (value := fact.requested if fact.observed is None else fact.observed) is not None
    ]
    logs = (
        f"{log.name}, {format_count(log.lines, 'line')}, SHA-256 {log.sha256[:16]}…"
        for log in imported.sources
    )
    return Labels(
        (
            ("Batch", _batch(result)),
            ("Imported", imported.origin),
            ("Estimator", imported.estimator),
            ("Known", ", ".join(known)),
            *(("Log", log) for log in logs),
        )
    )


# -- metrics


class _Notes:
    """Footnotes, each text once."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def mark(self, text: str) -> str:
        if not text:
            return ""
        if text not in self.texts:
            self.texts.append(text)
        return f" [{self.texts.index(text) + 1}]"


def _metrics(metrics: Sequence[Metric], notes: _Notes) -> Table:
    rows = []
    # The throughput comes first, whatever the order of the measurers' names.
    for metric in sorted(metrics, key=lambda metric: not metric.name.startswith("throughput")):
        display_scale = scale(metric.value, metric.unit)
        spread = (
            display_scale.interval(min(metric.repeats), max(metric.repeats))
            if len(metric.repeats) > 1
            else ""
        )
        rows.append(
            (
                metric.name + notes.mark(metric.note),
                display_scale.with_unit(metric.value),
                _interval(metric),
                Cell(spread, "quiet"),
            )
        )
    columns = (
        Column("metric", whole=True),
        Column("median", right=True),
        Column("95 % interval", right=True),
        Column("lowest – highest", right=True),
    )
    return Table(columns, tuple(rows))


def _interval(metric: Metric) -> Cell:
    """Return the interval of a metric's median as a cell, without the unit; a dash if there is none."""
    return interval_cell(metric.low, metric.high, scale(metric.value, metric.unit).interval)


# -- verdicts


def _verdicts(verdicts: Sequence[Verdict], heading: str) -> Table:
    rows = [(mark_outcome(verdict.outcome), verdict.name, verdict.detail) for verdict in verdicts]
    return Table(
        (Column("verdict", whole=True), Column("check", whole=True), Column("finding")), tuple(rows), heading
    )
