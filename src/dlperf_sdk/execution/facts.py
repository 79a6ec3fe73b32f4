"""What a case is, field by field: role, requested and observed, side by side. Comparisons read nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from dlperf_sdk.planning.plan import Plan
from dlperf_sdk.results.records import Record
from dlperf_sdk.results.result import Fact
from dlperf_sdk.spec.fields import Role
from dlperf_sdk.spec.run_spec import RunSpec


def facts_of(spec: RunSpec, plan: Plan | None, records: Iterable[Record]) -> tuple[Fact, ...]:
    """The facts of a case; `observed` is None where nothing was measured that could tell.

    Without a plan, where a case was refused, they are what was asked for.
    """
    records = tuple(records)
    observed = {
        key: _agreed(record.observed.get(key) for record in records)
        for key in _keys(r.observed for r in records)
    }
    asked = spec.to_dict()
    if plan is None:
        names = [field for field in attrs.fields(RunSpec) if field.name != "options"]
        return tuple(Fact(field.name, field.metadata["role"], asked[field.name], None) for field in names)
    resolved: dict[str, Any] = {
        "device": plan.device if records else None,
        "canonical_steps": plan.protocol.canonical_steps,
        "warmup": plan.protocol.warmup,
        "steps": plan.protocol.steps,
        "repeats": len({record.attempt for record in records}),
        "max_repeats": plan.protocol.max_repeats,
        "target": plan.protocol.target,
        "strategy": "none" if records and spec.topology.devices == 1 else None,
    }
    found: list[Fact] = []
    for field in attrs.fields(RunSpec):
        if field.name == "options":
            continue
        requested = asked[field.name]
        # What no worker can contradict is as it was asked for.
        seen = observed.pop(field.name, None)
        if seen is None:
            seen = resolved.get(field.name)
        if seen is None and records and field.name not in _TOLD_BY_WORKERS:
            seen = requested
        found.append(Fact(field.name, field.metadata["role"], requested, seen))
    found += _options("workload", plan.model_options, plan, observed)
    found += _options("factor", plan.framework_options, plan, observed)
    found += _options("context", attrs.asdict(plan.topology_options), plan, observed)
    found += [Fact(name, "factor", None, value) for name, value in sorted(observed.items())]
    for name in _keys(record.facts for record in records):
        value = _agreed(record.facts.get(name) for record in records)
        found.append(Fact(name, "context", None, value))
    if records:
        found.append(Fact("clock", "context", None, _agreed(record.clock for record in records)))
    return tuple(found)


_TOLD_BY_WORKERS = frozenset({"precision", "compiler", "layout"})
"""Fields that only a worker can confirm: without its word, `observed` stays None."""


def _keys(mappings: Iterable[Any]) -> list[str]:
    return sorted({key for mapping in mappings for key in mapping})


def _agreed(values: Iterable[Any]) -> Any:
    """The one value that all share, or all that occur."""
    distinct: list[Any] = []
    for value in values:
        if value not in distinct:
            distinct.append(value)
    return distinct[0] if len(distinct) == 1 else distinct


def _options(role: Role, options: Any, plan: Plan, observed: dict[str, Any]) -> list[Fact]:
    """Each option once: what a worker saw of it, or else what it was planned to be."""
    return [
        Fact(name, role, plan.spec.options.get(name), observed.pop(name, value))
        for name, value in options.items()
    ]
