"""Health of the nodes of a fleet: which are slow, and which compute differently, from one result per node.

Nodes are compared with those that have equal devices, the *group*. The level is divided by the number of groups.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
from attrs import frozen

from dlperf_sdk.analysis import node_numerics, node_speed
from dlperf_sdk.analysis.node_numerics import Numerics, Trajectory, compare_numerics
from dlperf_sdk.analysis.node_speed import Speed, compare_speeds
from dlperf_sdk.errors import AnalysisError
from dlperf_sdk.results.result import FAIL, INTEGRITY, Result
from dlperf_sdk.results.table import rows
from dlperf_sdk.spec.identity import window

LABEL = "node"
"""Label of a run that names its node."""


@frozen
class NodeHealth:
    """Health of one node."""

    name: str
    """Name of the node."""
    run: str | None
    """Name of its run; None if there is none."""
    hardware: str
    """Its devices; empty if they are unknown."""
    throughput: float | None
    """Median throughput in units of the model per second; None without a valid one."""
    speed: Speed | None
    """Comparison of its throughput; None without a valid one."""
    numerics: Numerics | None
    """Comparison of its parameters; None if its run failed."""
    failure: str
    """Reason why its run failed; empty if it did not."""

    @property
    def is_flagged(self) -> bool:
        """True if the node is slow, or its results are or may be wrong."""
        is_slow = self.speed is not None and self.speed.outcome == node_speed.SLOW
        return is_slow or (self.numerics is not None and self.numerics.outcome in node_numerics.WRONG)

    @property
    def is_inconclusive(self) -> bool:
        """True if the measurements do not decide whether the node is slow, or whether it computes differently."""
        return any(
            part is not None and part.outcome == node_speed.INCONCLUSIVE
            for part in (self.speed, self.numerics)
        )

    @property
    def outcome(self) -> str:
        """The outcome of the node: one word, or two such as `slow, differs`.

        The first of these that applies:

        - `failed`: the run failed.
        - `slow`; `differs`, `tied`, `unstable` or `invalid` (outcomes of `numerics`); or both: the node is flagged.
        - `inconclusive`: the measurements do not decide about the speed or the parameters.
        - `fast`: the node is faster than the others.
        - `ok`: none of these.
        """
        if self.failure:
            return "failed"
        parts = [part.outcome for part in (self.speed, self.numerics) if part is not None]
        flags = [outcome for outcome in parts if outcome in (node_speed.SLOW, *node_numerics.WRONG)]
        if flags:
            return ", ".join(flags)
        return next((name for name in (node_speed.INCONCLUSIVE, node_speed.FAST) if name in parts), "ok")

    @property
    def details(self) -> tuple[str, ...]:
        """Reasons for the outcome, as sentences: `failure`, and the `detail` of `speed` and `numerics`.

        Those that are empty or None are left out.
        """
        parts = (self.speed, self.numerics)
        return (
            *([self.failure] if self.failure else []),
            *(part.detail for part in parts if part is not None and part.detail),
        )


@frozen
class Fleet:
    """Health of all nodes."""

    case: str
    """Label of the case."""
    unit: str
    """Unit of the throughput."""
    nodes: tuple[NodeHealth, ...]
    """Nodes with a result, in the order of their first results; then those without one."""
    minimum_effect: float
    """The smallest slowdown that counts, as a fraction."""
    level: float
    """Probability of a false alarm on any node."""

    @property
    def flagged(self) -> tuple[NodeHealth, ...]:
        """Nodes that are slow, or whose results are or may be wrong."""
        return tuple(node for node in self.nodes if node.is_flagged)

    @property
    def failed(self) -> tuple[NodeHealth, ...]:
        """Nodes whose runs failed."""
        return tuple(node for node in self.nodes if node.failure)

    @property
    def compares_numerics(self) -> bool:
        """True if the parameters of at least two nodes were compared."""
        compared = (node_numerics.EQUAL, node_numerics.DIFFERS, node_numerics.TIED)
        return any(node.numerics is not None and node.numerics.outcome in compared for node in self.nodes)

    @property
    def exit_code(self) -> int:
        """Exit code of `dlperf fleet`.

        The first of these that applies:

        - 1: a node is slow, computes wrongly, or may compute wrongly.
        - 4: the runs of all nodes failed.
        - 6: the speed or the numerics of a node are inconclusive.
        - 5: the run of a node failed.
        - 0: none of these.
        """
        if self.flagged:
            return 1
        if len(self.failed) == len(self.nodes):
            return 4
        if any(node.is_inconclusive for node in self.nodes):
            return 6
        return 5 if self.failed else 0

    def to_dict(self) -> dict[str, Any]:
        """Return the fleet as JSON values.

        The keys are `case` (the case's label), `unit`, `minimum_effect` (a fraction), `level`, `exit_code`, `flagged`
        (a list of names of nodes), `failed` (a list of names of nodes) and `nodes`. The last is a list with an object
        per node, which has the key `outcome` and the fields of `NodeHealth`.
        """
        return {
            "case": self.case,
            "unit": self.unit,
            "minimum_effect": self.minimum_effect,
            "level": self.level,
            "exit_code": self.exit_code,
            "flagged": [node.name for node in self.flagged],
            "failed": [node.name for node in self.failed],
            "nodes": [{"outcome": node.outcome, **attrs.asdict(node)} for node in self.nodes],
        }


def node_of(result: Result) -> str:
    """Return the name of a result's node: its label `node`, else its host's name; empty if both are unknown."""
    host = result.hardware[0].get("host", "") if result.hardware else ""
    return str(result.spec.labels.get(LABEL) or host)


def examine_fleet(
    results: Iterable[Result],
    failures: Mapping[str, str] | None = None,
    *,
    minimum_effect: float = 0.03,
    level: float = 0.05,
) -> Fleet:
    """Find the nodes that are slow, and those that compute differently from nodes with equal devices.

    Args:
        results: Results of one case on single nodes; of several for a node, the newest counts.
        failures: Name of a node without a result → the reason; None: there are no such nodes. A node that has a result
            is ignored here.
        minimum_effect: The smallest slowdown that counts, as a fraction above 0 and below 1.
        level: The probability of a false alarm on any node, above 0 and below 0.5.

    Returns:
        The health of every node, also of those whose runs failed.

    Raises:
        AnalysisError: `level` or `minimum_effect` is out of range; there is no node; or a result has several nodes, no
            name of its node, or another case than the others.
    """
    if not 0 < level < 0.5 or not 0 < minimum_effect < 1:
        raise AnalysisError(
            f"A level of {level} and a minimum effect of {minimum_effect}: both are fractions of 1 above 0, the level "
            "one below 0.5."
        )
    by_node = _newest_by_node(results)
    valid = {name: result for name, result in by_node.items() if result.ok}
    groups: dict[str, list[str]] = {}
    hardware = {name: str(rows([result])[0]["hardware"] or "") for name, result in by_node.items()}
    for name in valid:
        groups.setdefault(hardware[name], []).append(name)
    speeds: dict[str, Speed] = {}
    numerics: dict[str, Numerics] = {}
    for names in groups.values():
        throughputs = {name: _throughput(valid[name]) for name in names}
        steps = {valid[name].spec.resolved_protocol().steps for name in names}
        speeds |= compare_speeds(
            throughputs,
            minimum_effect=minimum_effect,
            level=level / len(groups),
            steps=steps.pop() if len(steps) == 1 else None,
        )
        numerics |= compare_numerics({name: _trajectories(valid[name]) for name in names})
    missing = {name: reason for name, reason in (failures or {}).items() if name not in by_node}
    if not by_node and not missing:
        raise AnalysisError("There is no node to examine.")
    nodes = [
        NodeHealth(
            name=name,
            run=result.id,
            hardware=hardware[name],
            throughput=_throughput(result) if result.ok else None,
            speed=speeds.get(name),
            numerics=numerics.get(name) or _judge_invalid(result),
            failure="" if result.failure is None else result.failure.message,
        )
        for name, result in by_node.items()
    ]
    nodes += [NodeHealth(name, None, "", None, None, None, reason) for name, reason in missing.items()]
    first = next(iter([*valid.values(), *by_node.values()]), None)
    metrics = [metric for result in valid.values() if (metric := result.metric("throughput")) is not None]
    unit = metrics[0].unit if metrics else ""
    case = "" if first is None else _label_of(first)
    return Fleet(case, unit, tuple(nodes), minimum_effect, level)


def _newest_by_node(results: Iterable[Result]) -> dict[str, Result]:
    """Return the newest result of each node.

    Raises:
        AnalysisError: A result has several nodes, no name of its node, or another case than the others.
    """
    newest: dict[str, Result] = {}
    for result in results:
        name = node_of(result)
        if result.spec.topology.nodes != 1 or not name:
            reason = "no name of its node" if not name else f"{result.spec.topology.nodes} nodes"
            raise AnalysisError(
                f"{result.id} has {reason}; a fleet has one run per node, with the label {LABEL}=NAME."
            )
        if name not in newest or newest[name].started_at < result.started_at:
            newest[name] = result
    cases = {_case_of(result): result for result in newest.values() if result.status == "ok"}
    if len(cases) > 1:
        first, rival, *_ = cases.values()
        raise AnalysisError(
            f"{first.id} and {rival.id} are runs of different cases; a fleet has one case. Give a directory with one."
        )
    return newest


def _case_of(result: Result) -> str:
    """Return a text that identifies a result's case; unlike `identity`, it leaves the launcher's options out."""
    requested = {fact.name: fact.requested for fact in result.facts if fact.role != "context"}
    requested["data"] = result.spec.data.source
    return f"{json.dumps(requested, sort_keys=True, default=str)} {window(result.spec)}"


def _label_of(result: Result) -> str:
    """Return the label of a result's case without the launcher's options, which place it on its node."""
    placing = {fact.name for fact in result.facts if fact.role == "context"}
    options = {name: value for name, value in result.spec.options.items() if name not in placing}
    return attrs.evolve(result.spec, options=options).label


def _throughput(result: Result) -> float:
    metric = result.metric("throughput")
    if metric is None:
        raise AnalysisError(f"{result.id} has no throughput.")
    return metric.value


def _trajectories(result: Result) -> Sequence[Trajectory]:
    """Return each repeat's digest and losses, of the first replica: validity checks compare it with the others."""
    return [
        Trajectory(replica.digest, (*replica.canonical_losses, *replica.warmup_losses, *replica.losses))
        for repeat in result.repeats
        for replica in repeat.records[0].replicas[:1]
    ]


def _judge_invalid(result: Result) -> Numerics | None:
    """Return the numerics of a result that failed a validity check; None if the run itself failed."""
    if result.failure is not None:
        return None
    failed = [v for v in result.verdicts if v.kind == INTEGRITY and v.outcome == FAIL]
    names = ", ".join(verdict.name for verdict in failed)
    return Numerics(node_numerics.INVALID, f"It failed {names}: {failed[0].detail}")
