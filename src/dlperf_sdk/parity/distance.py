"""Measure the deviation of a run from a trajectory; pure.

Parameters and running means are held by their fingerprints: an estimate of a norm, whose bounds stand beside it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from dlperf_sdk.documents.field_types import Fingerprint
from dlperf_sdk.parity.reference import ReferenceCase, Tolerance

NOISE = 10.0
"""A parameter may deviate by so many times what float32 did in one implementation: others round in other places, and a
fingerprint's estimate of a norm is good to a factor of two."""


def deviation(actual: float, expected: float) -> float:
    """Return the relative deviation of a loss; infinite if `actual` is not finite."""
    relative = abs(actual - expected) / abs(expected) if expected else abs(actual)
    return relative if math.isfinite(relative) else math.inf


def distance(actual: Fingerprint, expected: Fingerprint, usual: float = 0.0) -> float:
    """Estimate ‖a - b‖ / ‖b‖ of the arrays of two fingerprints, a being `actual` and b `expected`.

    Exact to the extent that eight products can tell: the root mean square of their differences has the expectation
    ‖a - b‖, and is within a factor of two of it in 99 of 100 cases. Two norms differ by ‖a - b‖ at most, so
    their difference is a lower bound. It is infinite if a is not finite. `usual` is a norm that stands in place of a
    smaller ‖b‖.
    """
    squares = sum((a - b) ** 2 for a, b in zip(actual[1:], expected[1:], strict=True)) / (len(expected) - 1)
    difference = max(math.sqrt(squares) if squares >= 0 else math.inf, abs(actual[0] - expected[0]))
    norm = max(expected[0], usual)
    relative = difference / norm if norm else difference
    return relative if math.isfinite(relative) else math.inf


def distances_by_name(
    actual: Mapping[str, Fingerprint],
    expected: Mapping[str, Fingerprint],
    usual: Mapping[str, Fingerprint] | None = None,
) -> dict[str, float]:
    """Return the distance of each array that both have, by name, in the order of `expected`.

    `usual` has the norms that stand in place of smaller ones.
    """
    norms = {name: fingerprint[0] for name, fingerprint in (usual or {}).items()}
    return {
        name: distance(actual[name], expected[name], norms.get(name, 0.0))
        for name in expected
        if name in actual
    }


Pairs = Iterable[tuple[Mapping[str, Fingerprint], Mapping[str, Fingerprint]]]
"""Of each replica what it did, and what it should have done."""


def largest_distances(pairs: Pairs) -> dict[str, float]:
    """Return the largest distance over the replicas of each array, by name, in the model's order.

    `pairs` has for each replica the actual and the expected fingerprints.
    """
    maxima: dict[str, float] = {}
    for actual, expected in pairs:
        for name, value in distances_by_name(actual, expected).items():
            maxima[name] = max(maxima.get(name, 0.0), value)
    return maxima


def combined_distance(pairs: Pairs) -> float | None:
    """Return the distance of all of a replica's arrays as one; the largest over the replicas; None without any.

    An array that hardly changes hardly counts, so that its noise does not decide. `pairs` are as in
    `largest_distances`.
    """
    distances: list[float] = []
    for actual, expected in pairs:
        norm = math.sqrt(math.fsum(expected[name][0] ** 2 for name in expected if name in actual))
        if norm:
            components = (
                ratio * (expected[name][0] or 1.0)
                for name, ratio in distances_by_name(actual, expected).items()
            )
            distances.append(math.sqrt(math.fsum(component**2 for component in components)) / norm)
    return max(distances, default=None)


def allowed_distance(name: str, case: ReferenceCase, tolerance: Tolerance) -> float:
    """Return the largest allowed distance of a parameter or a running mean.

    It is the tolerance's bound or `NOISE` times the noise of `name`, whichever is larger. A tolerance without a bound
    for single ones (`parameter`) contributes its bound for the updates as a whole.
    """
    bound = tolerance.updates if tolerance.parameter is None else tolerance.parameter
    return max(bound, NOISE * case.noise.get(name, 0.0))


def distance_in_tolerances(
    distances: Mapping[str, float], case: ReferenceCase, tolerance: Tolerance
) -> float:
    """Return the largest distance, as a multiple of its tolerance."""
    return max(
        (value / allowed_distance(name, case, tolerance) for name, value in distances.items()), default=0.0
    )
