"""One result: what was measured, whether to believe it, and on what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dlperf_sdk.interfaces.measurer import Metric
from dlperf_sdk.protocol import PROTOCOLS
from dlperf_sdk.report.blocks import Block, Cell, Column, Heading, Labels, Notes, Paragraph, Table, Tone
from dlperf_sdk.report.numbers import counted, quantity, ranges, scale
from dlperf_sdk.results.check import contradictions
from dlperf_sdk.results.result import (
    FAIL,
    INCONCLUSIVE,
    INTEGRITY,
    NOT_APPLICABLE,
    PASS,
    QUALITY,
    Imported,
    Result,
    Verdict,
)

_MARKS: dict[str, tuple[str, Tone]] = {
    PASS: ("✓", "good"),
    FAIL: ("✗", "bad"),
    INCONCLUSIVE: ("?", "doubt"),
    NOT_APPLICABLE: ("–", "quiet"),
}
_KINDS = ((INTEGRITY, "May the number stand?"), (QUALITY, "How good is it?"))
_ENVIRONMENTS = {
    "managed": "a managed environment",
    "given": "the interpreter given",
    "running": "the running interpreter",
}


def page(result: Result, directory: Path | None = None) -> list[Block]:
    """The whole report; `directory` is where the result's files lie, None where it has none."""
    found = contradictions(result)
    blocks: list[Block] = [Heading(title(result), outcome(result, found)), _case(result)]
    if result.failure is not None:
        blocks.append(Paragraph(result.failure.message, "bad"))
    if found:
        said = "This file contradicts itself, as one that was edited does: "
        blocks.append(Paragraph(said + " ".join(found), "bad"))
    notes = _Notes()
    if result.metrics:
        blocks.append(_metrics(result.metrics, notes))
        if all(metric.low is None for metric in result.metrics):
            count = max(len(result.repeats), *(len(metric.repeats) for metric in result.metrics))
            said = f"No interval: {counted(count, 'repeat')}, six are needed."
            blocks.append(Paragraph(said, "quiet"))
    for kind, heading in _KINDS:
        verdicts = [verdict for verdict in result.verdicts if verdict.kind == kind]
        if verdicts:
            blocks.append(_verdicts(verdicts, heading))
    blocks.append(Labels(_surroundings(result, directory)))
    if notes.texts:
        blocks.append(Notes(tuple(notes.texts)))
    return blocks


def title(result: Result) -> str:
    """`torch resnet50 · 1n2d · fp32`, with the compiler and strategy that are not the usual ones."""
    spec = result.spec
    parts = [f"{spec.framework} {spec.model}", str(spec.topology), spec.precision]
    if spec.compiler != "none":
        parts.append(spec.compiler)
    if spec.strategy != "all_reduce":
        parts.append(spec.strategy)
    return " · ".join(parts)


def outcome(result: Result, contradicted: Sequence[str]) -> Cell:
    """In a word or two, how the case came out; `contradicted` is what was found of its `contradictions`."""
    if result.failure is not None:
        done = f" after {counted(len(result.repeats), 'repeat')}" if result.repeats else ""
        return Cell(f"failed: {result.status}{done}", "bad")
    failed = [
        verdict.name for verdict in result.verdicts if verdict.outcome == FAIL and verdict.kind == INTEGRITY
    ]
    if contradicted:
        failed.append("the file contradicts itself")
    if failed:
        return Cell(f"not to be trusted: {', '.join(failed)}", "bad")
    if result.imported is not None:
        return Cell("imported, not verified", "doubt")
    doubts = [verdict.name for verdict in result.verdicts if verdict.outcome in (FAIL, INCONCLUSIVE)]
    return Cell(f"ok, with doubts: {', '.join(doubts)}", "doubt") if doubts else Cell("ok", "good")


def shown(value: object) -> str:
    """A value of a field: `none` for None, yes or no, anything else as it is."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return str(value)


def batch(result: Result) -> str:
    """The batch size beside the global one."""
    spec = result.spec
    devices = counted(spec.topology.devices, "device")
    text = f"{spec.batch_size:,} per device × {devices} = {spec.global_batch_size:,}"
    return f"{text}, in {spec.accumulation} micro-batches" if spec.accumulation > 1 else text


def _case(result: Result) -> Labels:
    if result.imported is not None:
        return _imported(result, result.imported)
    spec, workload = result.spec, result.workload
    protocol = spec.resolved_protocol()
    repeats = counted(len(result.repeats), "repeat")
    if len(result.repeats) < protocol.repeats:
        repeats = f"{len(result.repeats)} of {protocol.repeats} repeats"
    pairs = [("Batch", batch(result))]
    if workload is not None:
        flops = quantity(workload.flops_per_sample, "FLOP")
        pairs.append(("Model", f"{workload.parameters:,} parameters, {flops} per sample and training step"))
    if spec.options:
        pairs.append(
            ("Options", ", ".join(f"{name} = {shown(value)}" for name, value in spec.options.items()))
        )
    changed = "" if protocol == PROTOCOLS[protocol.name] else ", changed"
    pairs.append(
        (
            "Protocol",
            f"{protocol.name}{changed}: {protocol.warmup} warm-up + {protocol.steps} measured steps, {repeats}",
        )
    )
    pairs.append(("Data", str(spec.data)))
    if result.stopping is not None and result.stopping.rule != "fixed":
        pairs.append(("Stopping", result.stopping.detail))
    return Labels(tuple(pairs))


def _imported(result: Result, imported: Imported) -> Labels:
    """What is known of a case that another program measured, and where from."""
    known = [
        f"{fact.name.replace('_', ' ')} {shown(value)}"
        for fact in result.facts
        if (value := fact.requested if fact.observed is None else fact.observed) is not None
    ]
    logs = (
        f"{log.name}, {counted(log.lines, 'line')}, SHA-256 {log.sha256[:16]}…" for log in imported.sources
    )
    return Labels(
        (
            ("Batch", batch(result)),
            (
                "Imported",
                f"by {imported.importer}, version {imported.version}, from logs of {imported.program}",
            ),
            ("Estimator", imported.estimator),
            ("Known", ", ".join(known)),
            *(("Log", each) for each in logs),
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
    # The published figure comes first, whatever the order of the measurers' names.
    for metric in sorted(metrics, key=lambda metric: not metric.name.startswith("throughput")):
        how = scale(metric.value, metric.unit)
        spread = how.interval(min(metric.repeats), max(metric.repeats)) if len(metric.repeats) > 1 else ""
        rows.append(
            (
                metric.name + notes.mark(metric.note),
                how.with_unit(metric.value),
                interval(metric),
                Cell(spread, "quiet"),
            )
        )
    columns = (
        Column("metric"),
        Column("median", right=True),
        Column("95 % interval", right=True),
        Column("lowest – highest", right=True),
    )
    return Table(columns, tuple(rows))


def interval(metric: Metric) -> Cell:
    """The interval of the median; a dash where there is none."""
    if metric.low is None or metric.high is None:
        return Cell("–", "quiet")
    return Cell(scale(metric.value, metric.unit).interval(metric.low, metric.high))


# -- verdicts


def _verdicts(verdicts: Sequence[Verdict], heading: str) -> Table:
    rows = [(marked(verdict.outcome), verdict.name, verdict.detail) for verdict in verdicts]
    return Table((Column("verdict"), Column("check"), Column("finding")), tuple(rows), heading)


def marked(outcome: str) -> Cell:
    """How a verdict came out: a sign and the word."""
    mark, tone = _MARKS.get(outcome, ("?", "doubt"))
    return Cell(f"{mark} {outcome}", tone)


# -- surroundings


def _surroundings(result: Result, directory: Path | None) -> tuple[tuple[str, Cell | str], ...]:
    pairs: list[tuple[str, Cell | str]] = []
    environment = result.environment
    if environment is not None:
        how = _ENVIRONMENTS.get(environment.kind, environment.kind)
        pairs.append(("Environment", f"Python {environment.python}, {how}; {environment.plugin}"))
        if environment.variables:
            said = ", ".join(f"{name}={value}" for name, value in environment.variables.items())
            pairs.append(("Variables", said))
    pairs += [(label, text) for label, text in hardware(result.hardware)]
    found = circumstances(result)
    if found and result.imported is None:
        said = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in found)
        pairs.append(("Workers", said))
    for fact in result.facts if result.imported is None else ():
        if differs(fact.requested, fact.observed) and fact.name not in ("repeats", "strategy"):
            text = f"{fact.name} {fact.observed} ran where {fact.requested} was asked for"
            pairs.append(("Observed", Cell(text, "doubt")))
    pairs += [("Note", Cell(note, "doubt")) for note in result.notes]
    when = _when(result.started_at, result.finished_at)
    if result.imported is None:
        pairs.append(("Measured", f"{when}, with dlperf-sdk {result.sdk_version}"))
    else:
        pairs.append(("Logs changed", f"{when}; imported with dlperf-sdk {result.sdk_version}"))
    pairs.append(("Run", result.id) if directory is None else ("Files", f"{directory}/"))
    return tuple(pairs)


def _when(start: str, end: str) -> str:
    """`2025-01-31 10:15:02 to 10:21:40 UTC`; the day is said again where it is another."""
    (day, begun), (last_day, ended) = (text.removesuffix("+00:00").split("T") for text in (start, end))
    return f"{day} {begun} to {ended if day == last_day else f'{last_day} {ended}'} UTC"


def differs(requested: Any, observed: Any) -> bool:
    """Whether something else was seen than was asked for; `auto` and nothing are no wishes."""
    return requested not in (None, "auto") and observed is not None and requested != observed


def circumstances(result: Result) -> list[tuple[str, str]]:
    """What the workers found, in short: versions, threads, transport. Long values are left to result.json."""
    fields = set(result.spec.to_dict())
    found = []
    for fact in result.facts:
        if (
            fact.role == "circumstance"
            and fact.name not in fields
            and isinstance(fact.observed, str | int | float)
        ):
            text = str(fact.observed)
            if len(text) <= 40:
                found.append((fact.name, text))
    return found


def hardware(nodes: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """A labelled line per kind of node; nodes that are alike share one."""
    kinds: dict[str, list[int]] = {}
    for number, facts in enumerate(nodes):
        kinds.setdefault(_machine(facts), []).append(number)
    if len(nodes) == 1:
        return [("Hardware", text) for text in kinds]
    return [
        (f"Node {ranges(numbers)}" if len(numbers) == 1 else f"Nodes {ranges(numbers)}", text)
        for text, numbers in kinds.items()
    ]


def _machine(facts: Mapping[str, Any]) -> str:
    """`host: AMD EPYC 7B13, 2 of 4 processors, 15.6 GiB; Linux 6.1.0 (x86_64)`, with its GPUs."""
    cpu = facts.get("cpu")
    cpu = cpu if isinstance(cpu, Mapping) else {}
    parts = [str(cpu.get("model", "unknown processor"))]
    if "usable" in cpu and "logical" in cpu:
        parts.append(f"{cpu['usable']} of {cpu['logical']} processors")
    memory = facts.get("memory_limit") or facts.get("memory")
    if isinstance(memory, int | float):
        parts.append(quantity(memory, "B"))
    if isinstance(facts.get("numa_nodes"), int) and facts["numa_nodes"] > 1:
        parts.append(f"{facts['numa_nodes']} NUMA nodes")
    if "kernel" in facts:
        parts.append(f"Linux {facts['kernel']} {facts.get('architecture', '')}".rstrip())
    text = ", ".join(parts)
    if "host" in facts:
        text = f"{facts['host']}: {text}"
    gpus = _gpus(facts.get("gpus"))
    return f"{text}; {gpus}" if gpus else text


def _gpus(gpus: Any) -> str:
    """`8 × NVIDIA H200 (139.8 GiB), driver 570.86`."""
    if not isinstance(gpus, list | tuple):
        return ""
    kinds: dict[str, int] = {}
    for gpu in gpus:
        if isinstance(gpu, Mapping):
            memory = gpu.get("memory")
            size = f" ({quantity(memory, 'B')})" if isinstance(memory, int | float) else ""
            driver = f", driver {gpu['driver']}" if "driver" in gpu else ""
            text = f"{gpu.get('name', 'GPU')}{size}{driver}"
            kinds[text] = kinds.get(text, 0) + 1
    return "; ".join(f"{count} × {text}" for text, count in kinds.items())
