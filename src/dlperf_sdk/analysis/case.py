"""The common input of the analyses: a throughput with its repeats and the facts of its case, measured or published."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import field, frozen

from dlperf_sdk.errors import AnalysisError, UnknownName
from dlperf_sdk.interfaces.figure import PublishedFigure
from dlperf_sdk.results.result import FAIL, INCONCLUSIVE, Result
from dlperf_sdk.spec.fields import Role
from dlperf_sdk.spec.part import PARTS
from dlperf_sdk.spec.stated_protocol import StatedProtocol
from dlperf_sdk.spec.values import TopologySpec

IDENTIFYING_CONTEXT = (
    "data",
    "estimator",
    "framework_version",
    "implementation",
    "input_pipeline",
    "loader_workers",
)
"""Facts in context that nevertheless make two measurements different ones."""


LOADER_FACTS = ("input_pipeline", "loader_workers")
"""Facts of what feeds the framework with data. A slow loader hides how fast the framework is."""


FRAMEWORK_FACTS = ("framework_version", "layout")
"""Facts that belong to the framework: its version, and the layout unless the case requested one."""


IMPORTED, MODEL, STEADY_STATE = "imported numbers", "model", "steady state"
"""What can be unverified in a valid result."""
_UNVERIFIED = {"parity": MODEL, "steady-state": STEADY_STATE}
"""Name of a verdict → what is unverified if it is neither passed nor not applicable."""


MIN_THROUGHPUT, MAX_THROUGHPUT = 1e-30, 1e30
"""Bounds of a throughput that is accepted. Within them, ratios and their products are finite."""


def _throughput(case: Case, _: Any, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise AnalysisError(f"The throughput of {case.name} is {value!r}, which is no number.")
    if not math.isfinite(value) or value <= 0:
        raise AnalysisError(f"The throughput of {case.name} is {value}; it must be finite, and above 0.")
    if not MIN_THROUGHPUT <= value <= MAX_THROUGHPUT:
        raise AnalysisError(
            f"The throughput of {case.name} is {value}, which is impossible; it must lie between "
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
    """One measurement, from a result or a published figure.

    Raises:
        AnalysisError: The throughput, or that of a repeat, is not a number from `MIN_THROUGHPUT` to
            `MAX_THROUGHPUT`.
    """

    name: str
    """Name in messages: a run's name, or a published figure's framework, model, topology, precision and source."""
    topology: TopologySpec
    """Nodes and devices that the case ran on."""
    batch_size: int
    """Samples per device and optimization step."""
    throughput: float = field(validator=_throughput)
    """Samples of all devices per second."""
    unit: str
    """Unit of the throughput, such as `img/s`."""
    repeats: tuple[float, ...] = field(default=(), validator=_repeats)
    """Throughput of each repeat; empty if only the median is known."""
    protocol: StatedProtocol = field(factory=StatedProtocol)
    """Numbers of steps and repeats, as far as the source states them."""
    facts: Mapping[str, Any]
    """Name of a fact → value: as observed, else as requested. Facts that are unknown are left out."""
    roles: Mapping[str, Role]
    """Name of a fact → its role in a comparison."""
    requested_layout: bool = True
    """True if the case requested its layout; False if the framework chose it."""
    unverified: tuple[str, ...] = ()
    """What no check has shown of a result, and what its interval does not reflect: `IMPORTED`, `MODEL`,
    `STEADY_STATE`; empty for a published figure."""

    @property
    def global_batch_size(self) -> int:
        """Samples per step over all devices."""
        return self.batch_size * self.topology.devices

    @property
    def step_time(self) -> float:
        """Seconds per optimization step of all devices, from the throughput."""
        return self.global_batch_size / self.throughput

    @property
    def framework_facts(self) -> tuple[str, ...]:
        """Names of the facts that belong to the framework: its version, and the layout if the framework chose it."""
        return FRAMEWORK_FACTS[:1] if self.requested_layout else FRAMEWORK_FACTS

    @property
    def framework(self) -> str:
        """Framework with its version, and with the layout that it chose: `torch 2.4.1 (nchw)`."""
        version, layout = (str(self.facts.get(name, "")) for name in FRAMEWORK_FACTS)
        parts = [str(self.facts.get("framework", "")), version]
        if layout and not self.requested_layout:
            parts.append(f"({layout})")
        return " ".join(filter(None, parts))

    def identifying_facts(self) -> set[str]:
        """Return the names of the facts that identify the measurement.

        These are the facts of the workload, the factors, and the facts in `IDENTIFYING_CONTEXT`, such as the
        framework's version.
        """
        return {name for name, role in self.roles.items() if role != "context" or name in IDENTIFYING_CONTEXT}

    @classmethod
    def from_source(cls, source: Case | Result | PublishedFigure) -> Case:
        """Return the case of a result or a published figure. A case is returned unchanged.

        Raises:
            AnalysisError: The source is a result without a throughput, with a failed integrity verdict, or with
                an unresolved maximum batch size; or its throughput is outside the accepted bounds.
        """
        if isinstance(source, Case):
            return source
        if isinstance(source, PublishedFigure):
            return _case_from_figure(source)
        return _case_from_result(source)


def cases(sources: Iterable[Case | Result | PublishedFigure]) -> tuple[Case, ...]:
    """Return the cases of results, published figures and cases, in order.

    Raises:
        AnalysisError: A source has no valid throughput: a result has none, has a failed integrity verdict, or has
            an unresolved maximum batch size; or a throughput is outside the accepted bounds.
    """
    return tuple(map(Case.from_source, sources))


def key(value: Any) -> str:
    """Return a value as JSON text with sorted keys, to compare and group values that cannot be hashed.

    The values 1, 1.0 and true have different texts. A value that JSON lacks is represented by its `str`.
    """
    return json.dumps(value, sort_keys=True, default=str)


def differing_facts(group: Iterable[Case]) -> set[str]:
    """Return the names of the facts in which the cases of a group differ.

    A fact that only some of the cases state counts as a difference.
    """
    group = tuple(group)
    names = {name for case in group for name in case.facts}
    return {name for name in names if len({key(case.facts.get(name)) for case in group}) > 1}


def require_fact(name: str, group: Iterable[Case]) -> str:
    """Return the name unchanged, after a check that at least one case of the group states a fact of that name.

    Args:
        name: Name of a fact.
        group: The cases.

    Raises:
        UnknownName: No case states such a fact.
    """
    names = {fact_name for case in group for fact_name in case.facts}
    if name not in names:
        raise UnknownName("fact of these cases", name, names)
    return name


def _case_from_figure(figure: PublishedFigure) -> Case:
    roles = figure.roles()
    facts = {name: figure.value(name) for name in roles}
    # A fact that the source does not state is unknown; an estimator is then named "unknown".
    known = {name: value for name, value in facts.items() if value not in (None, "", "unknown")}
    known["topology"] = str(figure.topology)
    known["part"] = PARTS.default
    return Case(
        name=f"{figure.framework} {figure.model} {figure.topology} {figure.precision} ({figure.source})",
        topology=figure.topology,
        batch_size=figure.batch_size,
        throughput=figure.throughput,
        unit=figure.unit,
        repeats=figure.repeats,
        protocol=figure.protocol,
        facts=known,
        roles={"part": "workload", **{name: role for name, role in roles.items() if name in known}},
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
    # The estimator of every result that dlperf-sdk measured; published figures have others.
    known.setdefault("estimator", "elapsed")
    known.setdefault("part", result.spec.part)
    roles: dict[str, Role] = {f.name: f.role for f in result.facts if f.name in known}
    return Case(
        name=result.id,
        topology=result.spec.topology,
        batch_size=result.spec.batch_size,
        throughput=metric.value,
        unit=metric.unit,
        repeats=metric.repeats,
        protocol=StatedProtocol.from_protocol(result.spec.resolved_protocol()),
        facts=known,
        roles={"estimator": "context", "part": "workload", **roles},
        requested_layout=result.spec.layout != "auto",
        unverified=_list_unverified(result),
    )


def _list_unverified(result: Result) -> tuple[str, ...]:
    if result.imported is not None:
        return (IMPORTED,)
    return tuple(
        _UNVERIFIED[verdict.name]
        for verdict in result.verdicts
        if verdict.name in _UNVERIFIED and verdict.outcome in (FAIL, INCONCLUSIVE)
    )
