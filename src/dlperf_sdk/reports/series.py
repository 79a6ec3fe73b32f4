"""Groups of cases for plots and tables: runs of one case, cases of one workload, and labels that distinguish cases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from dlperf_sdk.analysis.case import Case, key
from dlperf_sdk.reports.wording import format_name, format_value, list_details
from dlperf_sdk.spec.compiler import NONE
from dlperf_sdk.spec.strategy import NO_STRATEGY
from dlperf_sdk.worker.estimate import median, median_interval

_FIRST = ("framework", "precision")
"""Facts that are in every label."""
_NAMED = (*_FIRST, "compiler", "hardware", "implementation", "strategy", "data", "framework_version")
"""Order in which facts are tried until all labels differ. Other facts follow by name."""
_PHRASES = (
    "framework",
    "framework_version",
    "implementation",
    "hardware",
    "precision",
    "compiler",
    "strategy",
    "data",
)
"""Order of the facts in a label."""
_DULL = {"compiler": NONE, "strategy": NO_STRATEGY}


@frozen
class Merged:
    """All runs of one case, merged."""

    case: Case
    """The case; with several runs, its throughput is the median of the runs, and its repeats are the runs."""
    runs: int
    """Number of runs."""
    low: float | None
    """Lower end of the interval."""
    high: float | None
    """Upper end of the interval of the median of the repeats, or of the runs if there are several; None with
    fewer than six."""


@frozen
class Workload:
    """Cases of one workload, which may be compared."""

    facts: dict[str, Any]
    """Facts of the workload: name → value."""
    merged: tuple[Merged, ...]
    """The merged cases, at least one."""
    title: str
    """Model, batch size, and the facts that distinguish this workload from others with the same title."""

    @property
    def cases(self) -> list[Case]:
        """The merged cases."""
        return [run.case for run in self.merged]

    @property
    def unit(self) -> str:
        """Unit of the throughputs."""
        return self.merged[0].case.unit


def merge(ungrouped: Iterable[Case]) -> list[Merged]:
    """Return the cases, with all runs of the same case merged into one, in the order of first occurrence.

    Runs are of the same case if all their identifying facts agree. Several runs become a case with the name and the
    facts of the first run, and the median of the runs as its throughput.
    """
    groups: dict[tuple[str, ...], list[Case]] = {}
    for case in ungrouped:
        groups.setdefault(_identity(case, case.identifying_facts()), []).append(case)
    return [_merge_runs(runs) for runs in groups.values()]


def _merge_runs(runs: Sequence[Case]) -> Merged:
    case = runs[0]
    if len(runs) > 1:
        # Repeats of one run are alike, so each of several runs counts as one value.
        rates = tuple(run.throughput for run in runs)
        unverified = tuple(dict.fromkeys(name for run in runs for name in run.unverified))
        case = evolve(case, throughput=median(rates), repeats=rates, unverified=unverified)
    low, high = median_interval(case.repeats) or (None, None)
    return Merged(case, len(runs), low, high)


def workloads(merged: Sequence[Merged]) -> list[Workload]:
    """Return the merged cases grouped by workload and unit, the workload with most cases first.

    The cases of a group have equal facts of the workload, such as the model and the batch size per device.
    """
    groups: dict[tuple[str, ...], list[Merged]] = {}
    for run in merged:
        names = {name for name, role in run.case.roles.items() if role == "workload"}
        groups.setdefault((*_identity(run.case, names), run.case.unit), []).append(run)
    facts = [_workload_facts(group[0].case) for group in groups.values()]
    titles = _titles_of(
        [f"{known.get('model', '')}, {known.get('batch_size', '?')} per device" for known in facts], facts
    )
    grouped = [
        Workload(workload_facts, tuple(group), title)
        for workload_facts, group, title in zip(facts, groups.values(), titles, strict=True)
    ]
    return sorted(grouped, key=lambda workload: -len(workload.merged))


def strong_workloads(merged: Sequence[Merged]) -> list[Workload]:
    """Return the merged cases grouped for strong scaling: each group has equal workload, unit and global batch size.

    The batch size per device may differ within a group, and is not among its `facts`. Groups with most cases come
    first.
    """
    groups: dict[tuple[str, ...], list[Merged]] = {}
    for run in merged:
        names = {name for name, role in run.case.roles.items() if role == "workload"} - {"batch_size"}
        batch_text = str(run.case.global_batch_size)
        groups.setdefault((*_identity(run.case, names), run.case.unit, batch_text), []).append(run)
    facts = []
    for group in groups.values():
        known = _workload_facts(group[0].case)
        known.pop("batch_size", None)
        facts.append(known)
    short = [
        f"{known.get('model', '')}, {group[0].case.global_batch_size:,} on all devices"
        for known, group in zip(facts, groups.values(), strict=True)
    ]
    described = zip(facts, groups.values(), _titles_of(short, facts), strict=True)
    grouped = [Workload(known, tuple(group), title) for known, group, title in described]
    return sorted(grouped, key=lambda workload: -len(workload.merged))


def _titles_of(short: Sequence[str], facts: Sequence[dict[str, Any]]) -> list[str]:
    """Return a title for each workload: the short one, extended by distinguishing facts if several workloads share it.

    Args:
        short: A short title for each workload.
        facts: The facts of each workload, in the same order.
    """
    titles = []
    for title, own_facts in zip(short, facts, strict=True):
        same_title = [other_facts for other, other_facts in zip(short, facts, strict=True) if other == title]
        differing = {
            name
            for name in {name for other_facts in same_title for name in other_facts}
            if len({key(other_facts.get(name)) for other_facts in same_title}) > 1
        }
        texts = [format_stated(name, own_facts.get(name)) for name in sorted(differing)]
        titles.append(", ".join([title, *texts]))
    return titles


def _workload_facts(case: Case) -> dict[str, Any]:
    return {name: case.facts[name] for name, role in case.roles.items() if role == "workload"}


def _identity(case: Case, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{name}={key(case.facts.get(name))}" for name in sorted(names))


def format_fact(name: str, value: Any) -> str:
    """Format a fact for a label, such as `amp-bf16`, `(tensorpack)`, `dynamic loss scale` or `batch size 32`.

    The name of the fact is left out if the value is a text. An implementation is in parentheses. A loss scale comes
    before the words `loss scale`. Details of a data source follow its name in parentheses. Any other value follows the
    name of the fact.

    Args:
        name: Name of the fact.
        value: Its value, which is not None.
    """
    if name == "implementation":
        return f"({value})"
    if name == "loss_scale":
        return f"{'no' if value == 'none' else value} loss scale"
    if name == "compiler" and value == NONE:
        return "no compiler"
    if isinstance(value, str):
        return format_value(name, value)
    if isinstance(value, Mapping):
        return f"{value.get('source', format_name(name))} ({list_details(value)})"
    words = format_value(name, key(value))
    return f"{format_name(name)} {words}" if words == key(value) else words


def format_stated(name: str, value: Any) -> str:
    """Format a fact for a label, such as `batch size 32`; one that the source does not state as `clip norm not stated`.

    Args:
        name: Name of the fact.
        value: Its value; None if the source does not state it.
    """
    return f"{format_name(name)} not stated" if value is None else format_fact(name, value)


def labels(cases: Sequence[Case], excluded: Sequence[str] = ()) -> list[str]:
    """Return a label for each case, in their order: framework, precision, and the other facts that tell them apart.

    Two cases have the same label only if all their identifying facts agree, apart from those in `excluded` and those
    that one of the two does not state.

    Args:
        cases: The cases.
        excluded: Names of facts that are never in a label.
    """
    fixed = sorted(
        {name for case in cases for name in case.identifying_facts()} - set(excluded) - set(_NAMED)
    )
    parts: dict[str, list[str]] = {}
    distinct = 0
    for name in (*_NAMED, *fixed):
        if name in excluded:
            continue
        texts = _format_facts(name, [case.facts.get(name) for case in cases])
        if name == "strategy" and len({*texts} - {""}) < 2:
            continue  # a single device has no strategy, which the topology already tells
        kinds = len(set(zip(*parts.values(), texts, strict=True)))
        if name in _FIRST or kinds > max(distinct, 1):
            parts[name] = texts
            distinct = kinds
    order = [name for name in _PHRASES if name in parts] + [name for name in parts if name not in _PHRASES]
    return [" ".join(filter(None, (parts[name][index] for name in order))) for index in range(len(cases))]


def describe_lacked_compilers(case: Case, others: Iterable[Case]) -> str:
    """Return `without xla` for a case without a compiler, if its framework was measured with xla for the same model.

    Several compilers are separated by commas. The text is empty if there is none, or if the case has a compiler.

    Args:
        case: The case.
        others: The cases that it is listed with.
    """
    if case.facts.get("compiler") not in (None, NONE):
        return ""
    compilers = {
        str(other.facts["compiler"])
        for other in others
        if other.facts.get("compiler") not in (None, NONE)
        and all(other.facts.get(name) == case.facts.get(name) for name in ("framework", "model"))
    }
    return ", ".join(f"without {name}" for name in sorted(compilers))


def _format_facts(name: str, values: Sequence[Any]) -> list[str]:
    """Return the part of a label for each value of a fact; of a data source, only its name if that suffices."""
    sources = [value.get("source", value) if isinstance(value, Mapping) else value for value in values]
    distinct = sources if len(set(map(key, sources))) == len(set(map(key, values))) else values
    return [
        "" if value is None or value == _DULL.get(name) else format_fact(name, value) for value in distinct
    ]
