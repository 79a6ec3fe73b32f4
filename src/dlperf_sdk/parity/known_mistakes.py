"""Known mistakes of implementations, named when a wrong run follows the trajectory that such a mistake leads to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from dlperf_sdk.documents.field_types import Fingerprint
from dlperf_sdk.parity.distance import deviation, distance_in_tolerances, distances_by_name
from dlperf_sdk.parity.record import Follower
from dlperf_sdk.parity.reference import Mistake, ReferenceCase, Tolerance, Trajectory

FOLLOWS = 3.0
"""Maximum distance from a known mistake's trajectory, in tolerances, at which a run is said to follow it. A mistake
that is no further from the correct trajectory is never named: a narrow number format cannot distinguish the two."""


def list_followed_mistakes(
    followers: Sequence[Follower],
    case: ReferenceCase,
    tolerance: Tolerance,
    *,
    syncs_gradients: bool,
    skipped: bool,
) -> tuple[str, ...]:
    """Return the names of the known mistakes whose trajectories the run follows, the nearest first, at most three.

    A run follows a trajectory if its distance from it is at most `FOLLOWS` (3) tolerances. If replicas synchronize,
    training each replica alone is one of the known mistakes.

    Args:
        followers: The first steps of each replica of the run.
        case: The configuration and trajectories of the reference, and its known mistakes.
        tolerance: The tolerances for the precision.
        syncs_gradients: True if the replicas synchronize their gradients.
        skipped: True if a loss scaler skipped steps; in this case, running means are not compared.
    """
    known: list[tuple[str, tuple[Trajectory, ...]]] = [
        (mistake.name, mistake.replicas)
        for mistake in case.mistakes
        if mistake.topology == ("pair" if syncs_gradients else "alone")
        and separation(mistake, case, tolerance) > FOLLOWS
    ]
    if syncs_gradients and len(case.alone) > 1:
        known.append(("gradients that do not meet: each replica trains alone", case.alone))
    right = case.pair if syncs_gradients else case.alone
    excesses = [
        (_excess(followers, replicas, right, case, tolerance, skipped), name) for name, replicas in known
    ]
    return tuple(name for excess, name in sorted(excesses) if excess <= FOLLOWS)[:3]


def separation(mistake: Mistake, case: ReferenceCase, tolerance: Tolerance) -> float:
    """Return the distance of a known mistake's trajectory from the correct one, as a multiple of the tolerance.

    Below 1 the mistake cannot be detected with these tolerances. The largest distance over losses, first updates and
    running means counts.

    Args:
        mistake: The known mistake.
        case: The configuration and correct trajectories of the reference.
        tolerance: The tolerances for the precision.
    """
    right = case.alone if mistake.topology == "alone" else case.pair
    return max(
        max(
            max(deviation(a, b) for a, b in zip(replica.losses, reference.losses, strict=True))
            / tolerance.losses,
            _largest_in_tolerances(replica.updates, reference.updates, tolerance.updates, case, tolerance),
            _largest_in_tolerances(
                replica.running_means, reference.running_means, tolerance.means, case, tolerance
            ),
        )
        for replica, reference in zip(mistake.replicas, right, strict=False)
    )


def _largest_in_tolerances(
    actual: Mapping[str, Fingerprint],
    expected: Mapping[str, Fingerprint],
    limit: float,
    case: ReferenceCase,
    tolerance: Tolerance,
) -> float:
    """Return the largest distance in tolerances if each array has one.

    Else, if only all together have, in multiples of `limit`.

    A mistake's trajectory keeps the fingerprints that are furthest off: of all as one, they give a lower bound.
    """
    distances = distances_by_name(actual, expected)
    if tolerance.parameter is not None:
        return distance_in_tolerances(distances, case, tolerance)
    norm = math.sqrt(math.fsum(fingerprint[0] ** 2 for fingerprint in expected.values()))
    total = math.sqrt(math.fsum((distance * expected[name][0]) ** 2 for name, distance in distances.items()))
    return total / norm / limit if norm else 0.0


def _excess(
    followers: Sequence[Follower],
    replicas: Sequence[Trajectory],
    right: Sequence[Trajectory],
    case: ReferenceCase,
    tolerance: Tolerance,
    skipped: bool,
) -> float:
    """Return the distance of the run from a mistake's trajectory, in tolerances.

    A mistake may leave almost nothing of an update, while rounding errors stay the same. Deviations are therefore
    relative to the correct update where that is larger.
    """
    worst = 0.0
    for follower in followers:
        if follower.index >= len(replicas) and len(replicas) < 2:
            continue  # the mistake's trajectory is known for the first shard only
        reference = replicas[follower.index % 2]
        losses = (deviation(a, b) for a, b in zip(follower.losses, reference.losses, strict=True))
        worst = max(worst, *(value / tolerance.losses for value in losses))
        usual = right[follower.index % len(right)]
        updates = distances_by_name(follower.updates, reference.updates, usual.updates)
        worst = max(worst, distance_in_tolerances(updates, case, tolerance))
        if not skipped:
            means = distances_by_name(follower.running_means, reference.running_means, usual.running_means)
            worst = max(worst, distance_in_tolerances(means, case, tolerance))
    return worst
