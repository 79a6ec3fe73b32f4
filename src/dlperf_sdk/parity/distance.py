"""Deviations of a run from a trajectory. The functions have no side effects.

Parameters and running means are compared by their fingerprints (`dlperf_sdk.worker.canonical`), which give an
estimate of a norm.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from dlperf_sdk.documents.field_types import Fingerprint
from dlperf_sdk.parity.reference import ReferenceCase, Tolerance

NOISE = 10.0
"""A parameter may deviate by this multiple of what float32 did in one implementation. Other implementations round
in other places, and a fingerprint's estimate of a norm is accurate to a factor of two."""


def deviation(actual: float, expected: float) -> float:
    """Return the relative deviation of the loss `actual` from `expected`, a fraction of `expected`, never negative.

    It is the absolute deviation if `expected` is 0, and infinite if `actual` is not finite.
    """
    relative = abs(actual - expected) / abs(expected) if expected else abs(actual)
    return relative if math.isfinite(relative) else math.inf


def distance(actual: Fingerprint, expected: Fingerprint, usual: float = 0.0) -> float:
    """Estimate ‖a - b‖ / ‖b‖ of two arrays from their fingerprints, where a is `actual` and b is `expected`.

    The root mean square of the differences of the eight products has the expectation ‖a - b‖, and is within a
    factor of two of it in 99 of 100 cases. The difference of the two norms is a lower bound. The larger of these two
    values is used.

    Args:
        actual: The fingerprint of a: its 2-norm, then its products with eight vectors of signs.
        expected: The fingerprint of b, with the same vectors.
        usual: A norm that replaces ‖b‖ if ‖b‖ is smaller.

    Returns:
        The relative distance; the absolute one if both norms are 0; infinite if a is not finite.
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
    """Return name → relative distance for each array that is in both mappings, in the order of `expected`.

    The distance is ‖a - b‖ / ‖b‖ for an actual array a and an expected array b, estimated from their fingerprints.

    Args:
        actual: Name of an array → its fingerprint.
        expected: Name of an array → its expected fingerprint.
        usual: Name of an array → fingerprint whose norm replaces ‖b‖ if ‖b‖ is smaller. The norm of an array without an
            entry is not replaced. None: no norm is replaced.
    """
    norms = {name: fingerprint[0] for name, fingerprint in (usual or {}).items()}
    return {
        name: distance(actual[name], expected[name], norms.get(name, 0.0))
        for name in expected
        if name in actual
    }


Pairs = Iterable[tuple[Mapping[str, Fingerprint], Mapping[str, Fingerprint]]]
"""The actual and the expected fingerprints of each replica, both as name → fingerprint."""


def largest_distances(pairs: Pairs) -> dict[str, float]:
    """Return name → largest relative distance over the replicas, for each array that is in both mappings of a replica.

    The arrays are in the order of the expected fingerprints.

    Args:
        pairs: For each replica, the actual and the expected fingerprints, both as name of an array → fingerprint.
    """
    maxima: dict[str, float] = {}
    for actual, expected in pairs:
        for name, value in distances_by_name(actual, expected).items():
            maxima[name] = max(maxima.get(name, 0.0), value)
    return maxima


def combined_distance(pairs: Pairs) -> float | None:
    """Return the relative distance of all arrays of a replica, taken as one vector; the largest over the replicas.

    So arrays with a large norm dominate, and the noise of an array that hardly changes has little influence. The result
    is None if no array is in both mappings, or if all expected norms are 0.

    Args:
        pairs: For each replica, the actual and the expected fingerprints, both as name of an array → fingerprint.
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
    """Return the largest allowed relative distance of the first update of a parameter, or of a running mean.

    It is the larger of `tolerance.parameter` and ten times the array's float32 noise in `case.noise`, which is 0 for an
    array without an entry. If `tolerance.parameter` is None, `tolerance.updates` is used in its place.

    Args:
        name: Name of the parameter or running mean.
        case: The configuration and trajectories of the reference.
        tolerance: The tolerances for the precision.
    """
    bound = tolerance.updates if tolerance.parameter is None else tolerance.parameter
    return max(bound, NOISE * case.noise.get(name, 0.0))


def distance_in_tolerances(
    distances: Mapping[str, float], case: ReferenceCase, tolerance: Tolerance
) -> float:
    """Return the largest quotient of an array's distance and its `allowed_distance`; 0 if there is no array.

    Args:
        distances: Name of a parameter or running mean → relative distance.
        case: The configuration and trajectories of the reference.
        tolerance: The tolerances for the precision.
    """
    return max(
        (value / allowed_distance(name, case, tolerance) for name, value in distances.items()), default=0.0
    )
