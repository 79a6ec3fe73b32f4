"""Slow nodes among nodes with equal devices: outliers of the logarithm of each node's median throughput.

Two error rates hold for all nodes together if the logarithms are normal. Without a slow node, any node is called slow
or fast with a probability of at most `level`. If a node is slower by the minimum effect, all nodes are called alike
with a probability of at most `level`, since every node must rule out such a slowdown (an intersection-union test, as in
the gate). A node is compared with the mean of the others, without outliers, by Student's t for a new observation:
W. Q. Meeker, G. J. Hahn and L. A. Escobar, Statistical Intervals, 2nd edition (2017), section 4.7.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import NormalDist

from attrs import frozen

from dlperf_sdk.analysis.gate_decision import MOST_LONGER
from dlperf_sdk.analysis.outliers import MIN_VALUES, find_outliers
from dlperf_sdk.results.student_t import quantile

SLOW, FAST, ALIKE, INCONCLUSIVE = "slow", "fast", "alike", "inconclusive"
"""Outcomes of a node's speed."""
_POWER = 0.8
_COUNTS = (*range(MIN_VALUES, 33), 40, 50, 64, 80, 100, 150, 250, 500, 1000)
"""Numbers of nodes that may be suggested."""


@frozen
class Speed:
    """Speed of one node, compared with the other nodes."""

    outcome: str
    """`SLOW`, `FAST`, `ALIKE` or `INCONCLUSIVE`."""
    change: float | None
    """Throughput relative to the geometric mean of the others, without outliers, minus 1; None without others."""
    bound: float | None
    """Lower bound of the change at the level; None if there are too few others."""
    detail: str
    """Reason, as a sentence; empty for a node that is alike."""


def compare_speeds(
    throughputs: Mapping[str, float], *, minimum_effect: float, level: float, steps: int | None = None
) -> dict[str, Speed]:
    """Compare the throughput of each node with the mean of the other nodes, without outliers.

    Args:
        throughputs: Name of a node → its median throughput, above 0. All nodes have equal devices.
        minimum_effect: The smallest slowdown that counts, as a fraction above 0 and below 1.
        level: The probability of a false alarm on any node, above 0 and below 0.5.
        steps: Number of measured steps of a repeat, from which `Speed.detail` computes the number of steps when it
            advises longer repeats. None if it is unknown; the advice then has no number of steps.

    Returns:
        Name of each node → its speed, in the order of `throughputs`.
    """
    names = list(throughputs)
    logs = {name: math.log(value) for name, value in throughputs.items()}
    outliers = {names[index] for index in find_outliers(list(logs.values()), level)}
    core = [name for name in names if name not in outliers]
    return {
        name: _compare(
            logs[name],
            [logs[other] for other in core if other != name],
            is_outlier=name in outliers,
            minimum_effect=minimum_effect,
            level=level,
            steps=steps,
        )
        for name in names
    }


def required_nodes(deviation: float, minimum_effect: float, level: float) -> int | None:
    """Return the size of a fleet that suffices to show, of every node, that it is not slow.

    With this number of nodes and none of them slow, 80 % of fleets have the outcome `alike` for all nodes.

    Args:
        deviation: Standard deviation of the natural logarithms of the nodes' throughputs.
        minimum_effect: The smallest slowdown that counts, as a fraction above 0 and below 1.
        level: The probability that all nodes have the outcome `alike` although one is slower by the minimum effect.

    Returns:
        The number of nodes; None if even 1,000 nodes are too few, because the nodes vary too much.
    """
    limit = -math.log1p(-minimum_effect)
    return next((count for count in _COUNTS if _margin(count, level) * deviation <= limit), None)


def _longer_repeats(
    count: int, deviation: float, minimum_effect: float, level: float, steps: int | None
) -> str:
    """Return how long repeats must be for `count` nodes to suffice, as text; empty if over `MOST_LONGER` times as long.

    It is an estimate, as in the gate: steps vary independently of each other, and nodes for no other reason.
    """
    limit = -math.log1p(-minimum_effect)
    for longer in range(2, MOST_LONGER + 1):
        if _margin(count, level) * deviation / math.sqrt(longer) <= limit:
            length = "" if steps is None else f"{longer * steps:,} steps; "
            return f"repeats {longer} times as long ({length}this assumes independent steps)"
    return ""


def _margin(count: int, level: float) -> float:
    """Return the slowdown, in standard deviations, that all of `count` sound nodes rule out in 80 % of fleets."""
    slowest = NormalDist().inv_cdf(math.pow(_POWER, 1 / count))
    return quantile(1 - level, count - 2) * math.sqrt(1 + 1 / (count - 1)) + slowest


def _compare(
    value: float,
    others: list[float],
    *,
    is_outlier: bool,
    minimum_effect: float,
    level: float,
    steps: int | None,
) -> Speed:
    if not others:
        return Speed(INCONCLUSIVE, None, None, "There is no other node with equal devices.")
    center = math.fsum(others) / len(others)
    change = math.expm1(value - center)
    text = f"{abs(100 * change):.1f} % {'slower' if change < 0 else 'faster'} than the others"
    if len(others) < MIN_VALUES - 1:
        detail = f"{text}; at least {MIN_VALUES} nodes with equal devices are needed."
        return Speed(INCONCLUSIVE, change, None, detail)
    deviation = math.sqrt(math.fsum((other - center) ** 2 for other in others) / (len(others) - 1))
    margin = quantile(1 - level, len(others) - 1) * deviation * math.sqrt(1 + 1 / len(others))
    bound = math.expm1(value - center - margin)
    spread = f"the others vary by {100 * deviation:.2f} % (standard deviation)"
    if is_outlier and change <= -minimum_effect:
        return Speed(SLOW, change, bound, f"{text}; {spread}.")
    if is_outlier and change >= minimum_effect:
        return Speed(
            FAST, change, bound, f"{text}; {spread}. Compare its power limit, clocks and load with theirs."
        )
    if bound > -minimum_effect:
        return Speed(ALIKE, change, bound, "")
    count, nodes = required_nodes(deviation, minimum_effect, level), len(others) + 1
    longer = _longer_repeats(nodes, deviation, minimum_effect, level, steps)
    if count is None:
        effect = math.ceil(-100 * math.expm1(-_margin(nodes, level) * deviation))
        remedies = [*([f"measure {longer}"] if longer else []), f"raise the minimum effect to {effect} %"]
        advice = f"No number of nodes decides that: {', or '.join(remedies)}."
    elif count > nodes:
        advice = f"Measure at least {count} nodes{f', or {longer}' if longer else ''}."
    else:
        advice = "Measure more repeats."
    finding = f"a slowdown of {100 * minimum_effect:g} % is neither shown nor ruled out"
    return Speed(INCONCLUSIVE, change, bound, f"{text}; {spread}, so {finding}. {advice}")
