"""Comparison of a parity run's records with a reference: deviations, their tolerances, and likely causes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from attrs import frozen

from dlperf_sdk.parity.distance import allowed_distance, combined_distance, deviation, largest_distances
from dlperf_sdk.parity.known_mistakes import list_followed_mistakes
from dlperf_sdk.parity.record import Follower, ParityRecord
from dlperf_sdk.parity.reference import ReferenceCase, Tolerance, Trajectory
from dlperf_sdk.results.result import FAIL, INCONCLUSIVE, NOT_APPLICABLE, PASS
from dlperf_sdk.spec.strategy import STRATEGIES

NAMED = 5
"""Maximum number of parameters that a sentence names."""


@frozen
class Comparison:
    """Outcome of a parity comparison."""

    outcome: str
    """`pass`, `fail`, `inconclusive` or `not-applicable`."""
    detail: str
    """Compared quantities, the deviation, and its likely cause."""
    losses: tuple[float, ...] = ()
    """Per step, the largest relative deviation of a replica's loss."""
    updates: float | None = None
    """Relative deviation of all first updates together; None if none were compared."""
    differing: tuple[str, ...] = ()
    """Names of the parameters whose first update deviates too far, and of such running means; in the model's order."""
    follows: tuple[str, ...] = ()
    """Names of the known mistakes whose trajectories the run follows, the nearest first."""


def expected_trajectories(
    case: ReferenceCase, strategy: str, replicas: int
) -> tuple[Trajectory, ...] | Comparison:
    """Return the expected trajectory of each replica, or a `Comparison` that says why there is none.

    Replica i trains on canonical shard i mod 2.

    Args:
        case: The configuration and trajectories of the reference.
        strategy: Name of the strategy by which replicas synchronize.
        replicas: Number of replicas.

    Returns:
        A tuple with one trajectory per replica; or, without a trajectory, a `Comparison`. Its outcome is
        `not-applicable` for asynchronous strategies, and `inconclusive` if the reference has no trajectory for this
        number of replicas.

    Raises:
        UnknownName: There is no such strategy.
    """
    if STRATEGIES[strategy].is_asynchronous:
        reason = "Asynchronous updates have no one trajectory that could be right."
        return Comparison(NOT_APPLICABLE, reason)
    if replicas == 1 or not STRATEGIES[strategy].syncs_gradients:
        trajectories = case.alone
    elif replicas % 2:
        reason = f"The reference serves one replica and even numbers of them; {replicas} is odd."
        return Comparison(INCONCLUSIVE, reason)
    else:
        trajectories = case.pair
    if len(trajectories) < min(replicas, 2):
        reason = f"The reference's case has no trajectory for {replicas} replicas that meet by {strategy}."
        return Comparison(INCONCLUSIVE, reason)
    return tuple(trajectories[replica % 2] for replica in range(replicas))


def compare(
    records: Sequence[ParityRecord], case: ReferenceCase, tolerance: Tolerance, strategy: str, replicas: int
) -> Comparison:
    """Compare the records of a parity run with a reference, and return the outcome. The function has no side effects.

    A run fails in each of these cases:

    - Replicas, losses or arrays are missing.
    - Losses, first updates of parameters or running means (of batch norm) deviate from the reference by more than the
      tolerance.
    - Running means, or the first updates of a model without running means, deviate by less than rounding in this
      precision causes: the precision was not in effect.
    - Replicas differ, although the strategy keeps them equal.

    Running means are not compared if the loss scaler skipped a step.

    Args:
        records: The record of each trainer process, in any order.
        case: The configuration and trajectories of the reference.
        tolerance: The tolerances for the precision.
        strategy: Name of the strategy by which replicas synchronize.
        replicas: Number of replicas.

    Returns:
        The comparison, with the outcome `pass` or `fail`; or `not-applicable` for asynchronous strategies, and
        `inconclusive` if the reference has no trajectory for this number of replicas.

    Raises:
        UnknownName: There is no such strategy.
    """
    right = expected_trajectories(case, strategy, replicas)
    if isinstance(right, Comparison):
        return right
    followers = sorted(
        (replica for record in records for replica in record.replicas), key=lambda replica: replica.index
    )
    misfit = _explain_misfit(followers, right, case)
    if misfit is not None:
        return Comparison(FAIL, misfit)
    pairs = list(zip(followers, right, strict=True))
    losses = tuple(
        max(deviation(replica.losses[i], trajectory.losses[i]) for replica, trajectory in pairs)
        for i in range(case.steps)
    )
    of_updates = [(replica.updates, trajectory.updates) for replica, trajectory in pairs]
    # A step that the loss scaler skips changes the running means, and nothing else.
    skipped = any(record.skipped_steps for record in records)
    of_means = (
        []
        if skipped
        else [(replica.running_means, trajectory.running_means) for replica, trajectory in pairs]
    )
    deviations = _Deviations(
        losses,
        largest_distances(of_updates),
        combined_distance(of_updates),
        largest_distances(of_means),
        combined_distance(of_means),
    )
    problems = [*_list_differing_replicas(followers, case, strategy), *_problems(deviations, case, tolerance)]
    differing = tuple(_list_beyond_bound({**deviations.updates, **deviations.means}, case, tolerance))
    if not problems:
        return Comparison(PASS, _summary(deviations, tolerance, case), losses, deviations.update)
    follows = list_followed_mistakes(
        followers, case, tolerance, syncs_gradients=right[0] is not case.alone[0], skipped=skipped
    )
    detail = " ".join(_compose_detail(problems, differing, follows))
    return Comparison(FAIL, detail, losses, deviations.update, differing, follows)


@frozen
class _Deviations:
    """Relative deviations of a run from its reference."""

    losses: tuple[float, ...]
    updates: Mapping[str, float]
    update: float | None
    """Deviation of all first updates together."""
    means: Mapping[str, float]
    mean: float | None
    """Deviation of all running means together."""


def _explain_misfit(
    followers: Sequence[Follower], right: Sequence[Trajectory], case: ReferenceCase
) -> str | None:
    """Return the reason that the records cannot be compared with the trajectories; None if they can."""
    indexes = [follower.index for follower in followers]
    if indexes != list(range(len(right))):
        return f"There are records of replicas {indexes} instead of {len(right)} replicas."
    for follower, reference in zip(followers, right, strict=True):
        if len(follower.losses) != case.steps:
            return f"Replica {follower.index} has {len(follower.losses)} losses instead of {case.steps}."
        for subject, actual, expected in (
            ("parameter", follower.updates, reference.updates),
            ("running mean", follower.running_means, reference.running_means),
        ):
            if follower.index < 2 and expected and list(actual) != list(expected):
                return f"Replica {follower.index}: {_mismatch(subject, list(actual), list(expected))}"
    return None


def _mismatch(subject: str, actual: list[str], expected: list[str]) -> str:
    """Return a sentence on the first name that is not where the reference has it."""
    for name in expected:
        if name not in actual:
            return f"the trainer gives no {subject} {name}, which the reference has."
    for name in actual:
        if name not in expected:
            return f"the trainer gives a {subject} {name}, which the reference does not have."
    place = next(i for i, name in enumerate(expected) if actual[i] != name)
    return f"where the reference has the {subject} {expected[place]}, the trainer gives {actual[place]}."


def _list_differing_replicas(
    followers: Sequence[Follower], case: ReferenceCase, strategy: str
) -> Iterator[str]:
    """Yield a problem if the strategy keeps replicas equal and their parameters differ.

    The reference plays no part in it.
    """
    if STRATEGIES[strategy].keeps_replicas_equal and len({follower.digest for follower in followers}) > 1:
        yield f"After {case.steps} steps the replicas' parameters differ from each other."


def _list_beyond_bound(
    distances: Mapping[str, float], case: ReferenceCase, tolerance: Tolerance
) -> Iterator[str]:
    """Yield the names of the arrays whose distance exceeds the allowed one."""
    return (name for name, value in distances.items() if value > allowed_distance(name, case, tolerance))


def _problems(deviations: _Deviations, case: ReferenceCase, tolerance: Tolerance) -> Iterator[str]:
    for step, value in enumerate(deviations.losses):
        if value > tolerance.losses:
            yield f"The loss of step {step} deviates from float64 by {value:.2g}; it may by {tolerance.losses:.2g}."
            break
    for label, distances, overall, limit in (
        ("first updates", deviations.updates, deviations.update, tolerance.updates),
        ("running means", deviations.means, deviations.mean, tolerance.means),
    ):
        excessive = list(_list_beyond_bound(distances, case, tolerance))
        if tolerance.parameter is not None and excessive:
            worst = _describe_worst(excessive, distances, case, tolerance)
            yield f"Of {len(distances)} {label} {len(excessive)} deviate too far, {worst}."
        if tolerance.parameter is None and overall is not None and overall > limit:
            yield f"As a whole the {label} deviate by {overall:.2g}; they may by {limit:.2g}."
    # Running means depend on the forward pass only: nothing amplifies their rounding errors.
    label, observed = (
        ("first updates", deviations.update)
        if not case.alone[0].running_means
        else ("running means", deviations.mean)
    )
    if observed is not None and observed < tolerance.least:
        yield (
            f"As a whole the {label} deviate from float64 by {observed:.2g} only, and this precision must by "
            f"{tolerance.least:.2g}: it was not in effect."
        )


def _describe_worst(
    excessive: Sequence[str], distances: Mapping[str, float], case: ReferenceCase, tolerance: Tolerance
) -> str:
    """Describe the array that exceeds its bound most.

    If its update consists of rounding errors only, a relative deviation says nothing. The deviation is then given
    as a multiple of the rounding error.
    """
    worst = max(excessive, key=lambda name: distances[name] / allowed_distance(name, case, tolerance))
    noise = case.noise.get(worst, 0.0)
    if noise >= 1.0:
        return (
            f"{worst} the most: by {distances[worst] / noise:.2g} times what rounding to float32 does to it"
        )
    return f"{worst} the most: by {distances[worst]:.2g}"


def _summary(deviations: _Deviations, tolerance: Tolerance, case: ReferenceCase) -> str:
    updates = (
        ""
        if deviations.update is None
        else f", {len(deviations.updates)} first updates by {deviations.update:.2g} as a whole"
    )
    means = (
        "" if deviations.mean is None else f", {len(deviations.means)} running means by {deviations.mean:.2g}"
    )
    return (
        f"Over {case.steps} steps the losses deviate from the float64 reference by {max(deviations.losses):.2g} "
        f"at most ({tolerance.losses:.2g} is allowed){updates}{means}."
    )


def _compose_detail(
    problems: Sequence[str], differing: Sequence[str], follows: Sequence[str]
) -> Iterator[str]:
    yield from problems
    if follows:
        yield f"It follows the trajectory of: {'; or '.join(follows)}."
    if differing:
        remainder = f" and {len(differing) - NAMED} more" if len(differing) > NAMED else ""
        yield f"First to differ, in the order of the model: {', '.join(differing[:NAMED])}{remainder}."
