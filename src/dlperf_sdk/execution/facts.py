"""The facts of a case: every field with its role, requested value and observed value. Comparisons read only facts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from dlperf_sdk.planning.plan import Plan
from dlperf_sdk.results.records import Record
from dlperf_sdk.results.result import Fact
from dlperf_sdk.spec.fields import Role
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.spec.strategy import NO_STRATEGY


def facts_of(
    spec: RunSpec,
    plan: Plan | None,
    records: Iterable[Record],
    variables: Mapping[str, str | None] | None = None,
) -> tuple[Fact, ...]:
    """Return the facts of a case: the spec's fields, the plugins' options, and what workers observed.

    Args:
        spec: The case.
        plan: The plan; None for a case that was refused, whose facts are the requested fields alone.
        records: The records of all finished repeats.
        variables: The environment variables of the workers, with values or hashes, including those that were taken
            from the shell; None if unknown.

    Returns:
        One fact per property, with its requested and its observed value. First come the spec's fields in their order,
        then the options of model, framework and launcher. After these come properties that only workers report: further
        settings, sorted by name; facts such as versions, sorted by name; and `clock`. The attribute `observed` is None
        if neither a record nor the plan shows the value, and a list of values if records differ.
    """
    records = tuple(records)
    observed = {
        key: _combine_values(record.observed.get(key) for record in records)
        for key in _keys(r.observed for r in records)
    }
    requested_fields = spec.to_dict()
    if plan is None:
        names = [field for field in attrs.fields(RunSpec) if field.name not in _NO_FACTS]
        return tuple(
            Fact(field.name, field.metadata["role"], requested_fields[field.name], None) for field in names
        )
    resolved: dict[str, Any] = {
        "device": plan.device if records else None,
        "env": dict(variables) if records and variables is not None else None,
        "canonical_steps": plan.protocol.canonical_steps,
        "warmup": plan.protocol.warmup,
        "steps": plan.protocol.steps,
        "repeats": len({record.attempt for record in records}),
        "max_repeats": plan.protocol.max_repeats,
        "target": plan.protocol.target,
        "strategy": (NO_STRATEGY if spec.topology.devices == 1 else spec.executed.strategy)
        if records
        else None,
        "data": str(spec.executed.data) if records else None,
    }
    facts: list[Fact] = []
    for field in attrs.fields(RunSpec):
        if field.name in _NO_FACTS:
            continue
        requested = requested_fields[field.name]
        # A value that no worker can contradict is as requested.
        value = observed.pop(field.name, None)
        if value is None:
            value = resolved.get(field.name)
        if value is None and records and field.name not in _CONFIRMED_BY_WORKERS:
            value = requested
        facts.append(Fact(field.name, field.metadata["role"], requested, value))
    facts += _options("workload", plan.model_options, plan, observed)
    facts += _options("factor", plan.framework_options, plan, observed)
    facts += _options("context", attrs.asdict(plan.topology_options), plan, observed)
    facts += [Fact(name, "factor", None, value) for name, value in sorted(observed.items())]
    for name in _keys(record.facts for record in records):
        value = _combine_values(record.facts.get(name) for record in records)
        facts.append(Fact(name, "context", None, value))
    if records:
        facts.append(Fact("clock", "context", None, _combine_values(record.clock for record in records)))
    return tuple(facts)


_NO_FACTS = ("options", "labels")
"""Fields without their own fact: each option is one, and labels describe the run, not the case."""
_CONFIRMED_BY_WORKERS = frozenset({"precision", "compiler", "layout"})
"""Fields that only a worker's record confirms: without one, `observed` stays None."""


def _keys(mappings: Iterable[Any]) -> list[str]:
    return sorted({key for mapping in mappings for key in mapping})


def _combine_values(values: Iterable[Any]) -> Any:
    """Return the one value that all share, or all that occur."""
    distinct: list[Any] = []
    for value in values:
        if value not in distinct:
            distinct.append(value)
    return distinct[0] if len(distinct) == 1 else distinct


def _options(role: Role, options: Any, plan: Plan, observed: dict[str, Any]) -> list[Fact]:
    """Return each option once: as a worker observed it, or else as it was planned."""
    return [
        Fact(name, role, plan.spec.options.get(name), observed.pop(name, value))
        for name, value in options.items()
    ]
