"""What the analysis works on: a throughput, its repeats, and the facts of the case, wherever they come from."""

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


LEAST, MOST = 1e-30, 1e30
"""Throughputs beyond these are none; within them ratios and their products are finite."""


def _throughput(case: Case, _: Any, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise AnalysisError(f"The throughput of {case.name} is {value!r}, which is no number.")
    if not math.isfinite(value) or value <= 0:
        raise AnalysisError(f"The throughput of {case.name} is {value}; it must be finite, and above 0.")
    if not LEAST <= value <= MOST:
        raise AnalysisError(
            f"The throughput of {case.name} is {value}, which nothing has; it must lie between {LEAST:g} and {MOST:g}."
        )


def _repeats(case: Case, _: Any, values: tuple[float, ...]) -> None:
    for value in values:
        if not LEAST <= value <= MOST:
            raise AnalysisError(
                f"A repeat of {case.name} has the throughput {value}; it must lie between {LEAST:g} and {MOST:g}."
            )


@frozen(kw_only=True)
class Case:
    """One measurement, as the analysis sees it.

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
    """The throughputs whose median it is; empty where only the median is known."""
    facts: Mapping[str, Any]
    """What the case was, as observed, else as requested. What is not known is not there."""
    roles: Mapping[str, Role]
    """How each fact bears on comparing."""

    @property
    def global_batch_size(self) -> int:
        """Samples per step over all devices."""
        return self.batch_size * self.topology.devices

    @property
    def step_time(self) -> float:
        """Seconds per step of all devices."""
        return self.global_batch_size / self.throughput

    def holds(self) -> set[str]:
        """Facts that make it this measurement and no other: workload, factor, and what `SETTLING` names."""
        return {name for name, role in self.roles.items() if role != "context" or name in SETTLING}

    @classmethod
    def of(cls, source: Case | Result | PublishedFigure) -> Case:
        """A result or a published figure as a case; a case is itself.

        Raises:
            AnalysisError: it is a result without a throughput, or with an untrue one.
        """
        if isinstance(source, Case):
            return source
        if isinstance(source, PublishedFigure):
            return _of_figure(source)
        return _of_result(source)


def cases(sources: Iterable[Case | Result | PublishedFigure]) -> tuple[Case, ...]:
    """Results, published figures and cases, all as cases.

    Raises:
        AnalysisError: one of them has no throughput, or an untrue one.
    """
    return tuple(map(Case.of, sources))


def key(value: Any) -> str:
    """A fact's value, so that equal values have equal keys."""
    return json.dumps(value, sort_keys=True, default=str)


def differing(many: Iterable[Case]) -> set[str]:
    """The facts in which cases differ; one that only some of them know counts as differing."""
    many = tuple(many)
    names = {name for case in many for name in case.facts}
    return {name for name in names if len({key(case.facts.get(name)) for case in many}) > 1}


def known_fact(name: str, many: Iterable[Case]) -> str:
    """The name, if any of the cases knows such a fact.

    Raises:
        UnknownName: none does.
    """
    names = {each for case in many for each in case.facts}
    if name not in names:
        raise UnknownName("fact of these cases", name, names)
    return name


def _of_figure(figure: PublishedFigure) -> Case:
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


def _of_result(result: Result) -> Case:
    metric = result.metric("throughput")
    if metric is None:
        raise AnalysisError(f"{result.id} has no throughput: its status is {result.status}.")
    if not result.ok:
        failed = [v.name for v in result.verdicts if v.kind == "integrity" and v.outcome == "fail"]
        why = f"it failed {', '.join(failed)}" if failed else f"its status is {result.status}"
        raise AnalysisError(f"The throughput of {result.id} does not stand: {why}.")
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
    )
