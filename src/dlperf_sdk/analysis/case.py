"""The input of every analysis: a throughput, its repeats and the facts of the case, measured or published."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import field, frozen

from dlperf_sdk.errors import AnalysisError, UnknownName
from dlperf_sdk.interfaces.figure import PublishedFigure
from dlperf_sdk.results.result import Result
from dlperf_sdk.spec.fields import Role
from dlperf_sdk.spec.values import TopologySpec

SETTLING = (
    "data",
    "estimator",
    "framework_version",
    "implementation",
    "input_pipeline",
    "loader_workers",
)
"""Circumstances that make two measurements different ones, whatever else they share."""


OF_FRAMEWORK = ("framework_version", "layout")
"""Facts that belong to the framework: its version, and the layout unless the case asked for one."""


MIN_THROUGHPUT, MAX_THROUGHPUT = 1e-30, 1e30
"""Throughputs beyond these are none; within them ratios and their products are finite."""


def _throughput(case: Case, _: Any, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise AnalysisError(f"The throughput of {case.name} is {value!r}, which is no number.")
    if not math.isfinite(value) or value <= 0:
        raise AnalysisError(f"The throughput of {case.name} is {value}; it must be finite, and above 0.")
    if not MIN_THROUGHPUT <= value <= MAX_THROUGHPUT:
        raise AnalysisError(
            f"The throughput of {case.name} is {value}, which nothing has; it must lie between "
            f"{MIN_THROUGHPUT:g} and {MAX_THROUGHPUT:g}."
        )


def _repeats(case: Case, _: Any, values: tuple[float, ...]) -> None:
    for value in values:
        if not MIN_THROUGHPUT <= value <= MAX_THROUGHPUT:
            raise AnalysisError(
                f"A repeat of {case.name} has the throughput {value}; it must lie between "
                f"{MIN_THROUGHPUT:g} and {MAX_THROUGHPUT:g}."
            )


@frozen(kw_only=True)
class Case:
    """One measurement, of ours or published.

    Raises:
        AnalysisError: its throughput, or that of a repeat, is not a finite number above 0, or beyond all measure.
    """

    name: str
    topology: TopologySpec
    batch_size: int
    """Samples per device."""
    throughput: float = field(validator=_throughput)
    """Samples of all devices per second."""
    unit: str
    repeats: tuple[float, ...] = field(default=(), validator=_repeats)
    """The throughputs of the repeats; empty where only their median is known."""
    facts: Mapping[str, Any]
    """The facts of the case, as observed, else as requested; without those that are unknown."""
    roles: Mapping[str, Role]
    """The role of each fact in a comparison."""
    requested_layout: bool = True
    """True if the case asked for its layout; else the framework chose it."""

    @property
    def global_batch_size(self) -> int:
        """Samples per step over all devices."""
        return self.batch_size * self.topology.devices

    @property
    def step_time(self) -> float:
        """Seconds per step of all devices."""
        return self.global_batch_size / self.throughput

    @property
    def of_framework(self) -> tuple[str, ...]:
        """The facts that belong to the framework."""
        return OF_FRAMEWORK[:1] if self.requested_layout else OF_FRAMEWORK

    @property
    def framework(self) -> str:
        """The framework with what belongs to it: `torch 2.4.1 (nchw)`."""
        version, layout = (str(self.facts.get(name, "")) for name in OF_FRAMEWORK)
        parts = [str(self.facts.get("framework", "")), version]
        if layout and not self.requested_layout:
            parts.append(f"({layout})")
        return " ".join(filter(None, parts))

    def holds(self) -> set[str]:
        """Return the facts that identify the measurement: workload, factors, and those in `SETTLING`."""
        return {name for name, role in self.roles.items() if role != "context" or name in SETTLING}

    @classmethod
    def from_source(cls, source: Case | Result | PublishedFigure) -> Case:
        """Return the case of a result or a published figure; a case unchanged.

        Raises:
            AnalysisError: it is a result without a throughput, or with an impossible one.
        """
        if isinstance(source, Case):
            return source
        if isinstance(source, PublishedFigure):
            return _case_from_figure(source)
        return _case_from_result(source)


def cases(sources: Iterable[Case | Result | PublishedFigure]) -> tuple[Case, ...]:
    """Return the cases of results, published figures and cases.

    Raises:
        AnalysisError: one of them has no throughput, or an impossible one.
    """
    return tuple(map(Case.from_source, sources))


def key(value: Any) -> str:
    """Return a text that is equal for equal values."""
    return json.dumps(value, sort_keys=True, default=str)


def differing_facts(group: Iterable[Case]) -> set[str]:
    """Return the names of the facts in which the cases of a group differ; one that only some of them state differs."""
    group = tuple(group)
    names = {name for case in group for name in case.facts}
    return {name for name in names if len({key(case.facts.get(name)) for case in group}) > 1}


def require_fact(name: str, group: Iterable[Case]) -> str:
    """Return the name if any of the cases of a group states such a fact.

    Raises:
        UnknownName: none does.
    """
    names = {fact_name for case in group for fact_name in case.facts}
    if name not in names:
        raise UnknownName("fact of these cases", name, names)
    return name


def _case_from_figure(figure: PublishedFigure) -> Case:
    roles = figure.roles()
    facts = {name: figure.value(name) for name in roles}
    # A source that says nothing of a fact leaves it unknown; "unknown" is what estimators are called then.
    known = {name: value for name, value in facts.items() if value not in (None, "", "unknown")}
    known["topology"] = str(figure.topology)
    return Case(
        name=f"{figure.framework} {figure.model} {figure.topology} {figure.precision} ({figure.source})",
        topology=figure.topology,
        batch_size=figure.batch_size,
        throughput=figure.throughput,
        unit=figure.unit,
        repeats=figure.repeats,
        facts=known,
        roles={name: roles[name] for name in known},
    )


def _case_from_result(result: Result) -> Case:
    metric = result.metric("throughput")
    if metric is None:
        raise AnalysisError(f"{result.id} has no throughput: its status is {result.status}.")
    if not result.ok:
        failed = [v.name for v in result.verdicts if v.kind == "integrity" and v.outcome == "fail"]
        reason = f"it failed {', '.join(failed)}" if failed else f"its status is {result.status}"
        raise AnalysisError(f"The throughput of {result.id} does not stand: {reason}.")
    if result.spec.wants_max_batch:
        raise AnalysisError(f"The throughput of {result.id} is of no batch size: the largest was not found.")
    facts = {f.name: f.requested if f.observed is None else f.observed for f in result.facts}
    known = {name: value for name, value in facts.items() if value is not None}
    # The estimator of every result of ours; published figures have others.
    known.setdefault("estimator", "elapsed")
    roles: dict[str, Role] = {f.name: f.role for f in result.facts if f.name in known}
    return Case(
        name=result.id,
        topology=result.spec.topology,
        batch_size=result.spec.batch_size,
        throughput=metric.value,
        unit=metric.unit,
        repeats=metric.repeats,
        facts=known,
        roles={"estimator": "context", **roles},
        requested_layout=result.spec.layout != "auto",
    )
