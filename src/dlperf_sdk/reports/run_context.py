"""Context of a result: the environment, the machines, and the facts that its workers reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dlperf_sdk.reports.blocks import Cell
from dlperf_sdk.reports.numbers import quantity, ranges
from dlperf_sdk.results.result import Result
from dlperf_sdk.spec.secret_values import is_hash

_ENVIRONMENTS = {
    "managed": "a managed environment",
    "given": "the interpreter given",
    "running": "the running interpreter",
}
_LONGEST_LINE = 500
"""Maximum length of the description of a machine, in characters."""


def list_run_context(result: Result, directory: Path | None) -> tuple[tuple[str, Cell | str], ...]:
    """Return pairs of a label and a text or cell on the context of a result.

    The pairs are, in this order, about the environment, its variables, the machines, facts of the workers, settings
    that differ from the requested ones, notes, labels, the time of the run, its directory, and the log of the trainer
    that failed. What is unknown has no pair. Several pairs may have the same label. Secret values are not shown.

    Args:
        result: The result.
        directory: The result's directory; None: the last pair names the run instead, and there is no log.
    """
    pairs: list[tuple[str, Cell | str]] = []
    environment = result.environment
    if environment is not None:
        kind = _ENVIRONMENTS.get(environment.kind, environment.kind)
        pairs.append(("Environment", f"Python {environment.python}, {kind}; {environment.plugin}"))
        if environment.variables:
            listing = ", ".join(
                f"{name}={'(secret)' if is_hash(value) else value}"
                for name, value in environment.variables.items()
            )
            pairs.append(("Variables", listing))
    pairs += [(label, text) for label, text in hardware(result.hardware)]
    context = context_of(result)
    if context and result.imported is None:
        listing = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in context)
        pairs.append(("Workers", listing))
    for fact in result.facts if result.imported is None else ():
        if fact.name == "env":
            pairs += [
                ("Observed", Cell(f"{name}: not set in the shell, so not passed to the workers", "doubt"))
                for name, value in (fact.requested or {}).items()
                if value is None and fact.observed is not None and name not in fact.observed
            ]
        elif _differs(fact.requested, fact.observed) and fact.name not in ("repeats", "strategy"):
            text = f"{fact.name}: requested {fact.requested}, used {fact.observed}"
            pairs.append(("Observed", Cell(text, "doubt")))
    pairs += [("Note", Cell(note, "doubt")) for note in result.notes]
    if result.spec.labels:
        pairs.append(("Labels", format_labels(result.spec.labels)))
    period = _format_period(result.started_at, result.finished_at)
    if result.imported is None:
        pairs.append(("Measured", f"{period}, with dlperf-sdk {result.sdk_version}"))
    else:
        pairs.append(("Logs changed", f"{period}; imported with dlperf-sdk {result.sdk_version}"))
    pairs.append(("Run", result.id) if directory is None else ("Files", f"{directory}/"))
    log = _find_log_of_failure(result, directory)
    return (*pairs, ("Log", str(log))) if log else tuple(pairs)


def _find_log_of_failure(result: Result, directory: Path | None) -> Path | None:
    """Return the log of the trainer that failed, in its last attempt; None if it is unknown or not stored."""
    if directory is None or result.failure is None or result.failure.rank is None:
        return None
    logs = directory.glob(f"attempts/*/rank-{result.failure.rank}.log")
    return max(
        (log for log in logs if log.parent.name.isdecimal()),
        key=lambda log: int(log.parent.name),
        default=None,
    )


def format_labels(labels: Mapping[str, str]) -> str:
    """Format labels as `commit=1f3a9c, branch=main`."""
    return ", ".join(f"{name}={value}" for name, value in labels.items())


def _format_period(start: str, end: str) -> str:
    """Format a period as `2025-01-31 10:15:02 to 10:21:40 UTC`, with the second day if it differs."""
    (day, start_time), (last_day, end_time) = (
        text.removesuffix("+00:00").split("T") for text in (start, end)
    )
    return f"{day} {start_time} to {end_time if day == last_day else f'{last_day} {end_time}'} UTC"


def _differs(requested: Any, observed: Any) -> bool:
    """Return True if a value was requested and another one was observed; `auto` and None request nothing.

    Of a data source with details, only the name is compared: of each replica, if their details differ.
    """
    if isinstance(observed, list) and observed and all(isinstance(details, Mapping) for details in observed):
        return any(_differs(requested, details) for details in observed)
    if isinstance(observed, Mapping) and isinstance(requested, str) and "source" in observed:
        requested, observed = requested.partition(":")[0], observed["source"]
    return requested not in (None, "auto") and observed is not None and requested != observed


def context_of(result: Result) -> list[tuple[str, str]]:
    """Return (name, value) of the facts that the workers of a result reported, such as versions, threads and transport.

    Values are texts. The facts are in the result's order; the list is empty without any. Fields of the run spec, facts
    of other roles than context, and values of more than 40 characters are left out.
    """
    fields = set(result.spec.to_dict())
    parts = []
    for fact in result.facts:
        if (
            fact.role == "context"
            and fact.name not in fields
            and isinstance(fact.observed, str | int | float)
        ):
            text = str(fact.observed)
            if 0 < len(text) <= 40:
                parts.append((fact.name, text))
    return parts


def hardware(nodes: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return (label, description) of each group of equal nodes, such as `Nodes 0-3` and a line about the machine.

    A single node has the label `Hardware`. What is unknown of a machine is left out of its line.

    Args:
        nodes: For each node, in the order of node indexes, the facts that its agent found: `host`, `cpu`, `gpus`, ….
    """
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
    """Describe a node as `describe_machine` does, after the name of its host."""
    text = describe_machine(facts)
    return _fit_line(f"{facts['host']}: {text}") if "host" in facts else text


def describe_machine(facts: Mapping[str, Any]) -> str:
    """Describe a machine as `AMD EPYC 7B13, 2 of 4 processors, 15.6 GiB, Linux 6.1.0 x86_64`, with its GPUs.

    The description is one line. One of more than `_LONGEST_LINE` (500) characters is cut, and ends with an ellipsis.

    Args:
        facts: The facts that an agent found: `cpu`, `gpus`, …. What is unknown is left out.
    """
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
    gpus = _gpus(facts.get("gpus"))
    return _fit_line(f"{text}; {gpus}" if gpus else text)


def _fit_line(text: str) -> str:
    """Return a text as one line: a result from somebody else may have thousands of lines as the name of a machine."""
    line = " ".join(text[: 2 * _LONGEST_LINE].split())
    return line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 1]}…"


def _gpus(gpus: Any) -> str:
    """Describe GPUs as `8 × NVIDIA H200 (139.8 GiB), driver 570.86`."""
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
