"""A parity run's records held against a reference: how far apart, whether that is too far, and what it looks like."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import frozen

from dlperf_sdk.parity.record import Follower, ParityRecord
from dlperf_sdk.parity.reference import Fingerprint, Mistake, ReferenceCase, Tolerance, Trajectory
from dlperf_sdk.results.result import FAIL, INCONCLUSIVE, NOT_APPLICABLE, PASS

NOISE = 10.0
"""A parameter may deviate by so many times what float32 did in one implementation: others round in other places, and a
fingerprint's estimate of a norm is good to a factor of two."""
FOLLOWS = 3.0
"""A run follows a mistake's trajectory within so many tolerances; what is right is further from all of them."""
NAMED = 5
"""Parameters that a sentence names."""


@frozen
class Comparison:
    """What a comparison found."""

    outcome: str
    detail: str
    """What was held against what, how far it was, and what it looks like."""
    losses: tuple[float, ...] = ()
    """Per step the largest relative deviation of a replica's loss."""
    updates: float | None = None
    """The relative deviation of the first updates, taken as one."""
    differing: tuple[str, ...] = ()
    """Parameters whose first update, and running means that, deviate too far; in the model's order."""
    follows: tuple[str, ...] = ()
    """The known mistakes that lead where the run went, the nearest first."""


def expected(case: ReferenceCase, strategy: str, replicas: int) -> tuple[Trajectory, ...] | Comparison:
    """The trajectory of each replica, which trains on the canonical shard of its index mod 2; or why there is none."""
    if strategy == "parameter_server_async":
        said = "Asynchronous updates have no one trajectory that could be right."
        return Comparison(NOT_APPLICABLE, said)
    if replicas == 1 or strategy == "independent":
        given = case.alone
    elif replicas % 2:
        said = f"The reference serves one replica and even numbers of them; {replicas} is odd."
        return Comparison(INCONCLUSIVE, said)
    else:
        given = case.pair
    if len(given) < min(replicas, 2):
        said = f"The reference's case has no trajectory for {replicas} replicas that meet by {strategy}."
        return Comparison(INCONCLUSIVE, said)
    return tuple(given[replica % 2] for replica in range(replicas))


def compare(
    records: Sequence[ParityRecord], case: ReferenceCase, tolerance: Tolerance, strategy: str, replicas: int
) -> Comparison:
    """Hold a run's records against a case of a reference; pure."""
    right = expected(case, strategy, replicas)
    if isinstance(right, Comparison):
        return right
    followers = sorted((one for record in records for one in record.replicas), key=lambda one: one.index)
    wrong = _misfit(followers, right, case)
    if wrong is not None:
        return Comparison(FAIL, wrong)
    losses = tuple(
        max(_apart(one.losses[i], other.losses[i]) for one, other in zip(followers, right, strict=True))
        for i in range(case.steps)
    )
    pairs = list(zip(followers, right, strict=True))
    of_updates = [(one.updates, other.updates) for one, other in pairs]
    of_means = [(one.running_means, other.running_means) for one, other in pairs]
    skipped = any(record.skipped_steps for record in records)
    # Steps that a loss scaler skips move the running means, and nothing else.
    if skipped:
        of_means = []
    found = _Found(losses, _distances(of_updates), _whole(of_updates), _distances(of_means), _whole(of_means))
    problems = [*_apart_from_each_other(followers, case, strategy), *_problems(found, case, tolerance)]
    differing = tuple(_beyond({**found.updates, **found.means}, case, tolerance))
    if not problems:
        return Comparison(PASS, _summary(found, tolerance, case), losses, found.update)
    follows = _follows(followers, case, tolerance, meet=right[0] is not case.alone[0], skipped=skipped)
    said = " ".join(_said(problems, differing, follows))
    return Comparison(FAIL, said, losses, found.update, differing, follows)


@frozen
class _Found:
    """Relative deviations."""

    losses: tuple[float, ...]
    updates: Mapping[str, float]
    update: float | None
    """Of all first updates as one."""
    means: Mapping[str, float]
    mean: float | None
    """Of all running means as one."""


def _misfit(followers: Sequence[Follower], right: Sequence[Trajectory], case: ReferenceCase) -> str | None:
    """Why the records cannot be held against the trajectories at all."""
    if [one.index for one in followers] != list(range(len(right))):
        return f"There are records of replicas {[one.index for one in followers]} instead of {len(right)} replicas."
    for one, other in zip(followers, right, strict=True):
        if len(one.losses) != case.steps:
            return f"Replica {one.index} has {len(one.losses)} losses instead of {case.steps}."
        for what, ours, theirs in (
            ("parameter", one.updates, other.updates),
            ("running mean", one.running_means, other.running_means),
        ):
            if one.index < 2 and theirs and list(ours) != list(theirs):
                return f"Replica {one.index}: {_mismatch(what, list(ours), list(theirs))}"
    return None


def _apart_from_each_other(
    followers: Sequence[Follower], case: ReferenceCase, strategy: str
) -> Iterator[str]:
    """What is wrong with the replicas by themselves, whatever the reference says."""
    if strategy != "independent" and len({one.digest for one in followers}) > 1:
        yield f"After {case.steps} steps the replicas' parameters differ from each other."


def _mismatch(what: str, ours: list[str], theirs: list[str]) -> str:
    """The first name that is not where the reference has it."""
    for name in theirs:
        if name not in ours:
            return f"the trainer gives no {what} {name}, which the reference has."
    for name in ours:
        if name not in theirs:
            return f"the trainer gives a {what} {name}, which the reference does not have."
    place = next(i for i, name in enumerate(theirs) if ours[i] != name)
    return f"where the reference has the {what} {theirs[place]}, the trainer gives {ours[place]}."


def _apart(ours: float, theirs: float) -> float:
    """The relative deviation; infinite where ours is no finite number."""
    distance = abs(ours - theirs) / abs(theirs) if theirs else abs(ours)
    return distance if math.isfinite(distance) else math.inf


def distance(ours: Fingerprint, theirs: Fingerprint, usual: float = 0.0) -> float:
    """An estimate of ‖a - b‖ / ‖b‖ of the arrays that the fingerprints are of; infinite where ours is not finite.

    Exact to the extent that eight products can tell: the root mean square of their differences has the expectation
    ‖a - b‖, and is within a factor of two of it in 99 of 100 cases. Two norms differ by ‖a - b‖ at most, so
    their difference is a lower bound. `usual` is a norm that stands in place of a smaller ‖b‖.
    """
    squares = sum((a - b) ** 2 for a, b in zip(ours[1:], theirs[1:], strict=True)) / (len(theirs) - 1)
    apart = max(math.sqrt(squares) if squares >= 0 else math.inf, abs(ours[0] - theirs[0]))
    norm = max(theirs[0], usual)
    relative = apart / norm if norm else apart
    return relative if math.isfinite(relative) else math.inf


def _distances(
    pairs: Iterable[tuple[Mapping[str, Fingerprint], Mapping[str, Fingerprint]]],
) -> dict[str, float]:
    """Name → the largest distance over the replicas that have it, in the model's order."""
    found: dict[str, float] = {}
    for ours, theirs in pairs:
        for name in theirs:
            if name in ours:
                found[name] = max(found.get(name, 0.0), distance(ours[name], theirs[name]))
    return found


def _whole(
    pairs: Iterable[tuple[Mapping[str, Fingerprint], Mapping[str, Fingerprint]]],
) -> float | None:
    """The distance of all of a replica's arrays, taken as one; the largest over the replicas; None without any.

    What hardly moves hardly counts, so that noise does not hide in numbers.
    """
    found: list[float] = []
    for ours, theirs in pairs:
        norm = math.sqrt(math.fsum(theirs[name][0] ** 2 for name in theirs if name in ours))
        if norm:
            apart = [
                distance(ours[name], theirs[name]) * (theirs[name][0] or 1.0)
                for name in theirs
                if name in ours
            ]
            found.append(math.sqrt(math.fsum(one**2 for one in apart)) / norm)
    return max(found, default=None)


def _allowed(name: str, case: ReferenceCase, bound: float) -> float:
    return max(bound, NOISE * case.noise.get(name, 0.0))


def _beyond(distances: Mapping[str, float], case: ReferenceCase, tolerance: Tolerance) -> Iterator[str]:
    """What is further away than it may be; where single ones are not held, than the median may be."""
    bound = tolerance.updates if tolerance.parameter is None else tolerance.parameter
    return (name for name, apart in distances.items() if apart > _allowed(name, case, bound))


def _problems(found: _Found, case: ReferenceCase, tolerance: Tolerance) -> Iterator[str]:
    for step, apart in enumerate(found.losses):
        if apart > tolerance.losses:
            yield f"The loss of step {step} deviates from float64 by {apart:.2g}; it may by {tolerance.losses:.2g}."
            break
    for what, distances, whole, most in (
        ("first updates", found.updates, found.update, tolerance.updates),
        ("running means", found.means, found.mean, tolerance.means),
    ):
        far = list(_beyond(distances, case, tolerance))
        if tolerance.parameter is not None and far:
            yield f"Of {len(distances)} {what} {len(far)} deviate too far, {_worst(far, distances, case, tolerance)}."
        if tolerance.parameter is None and whole is not None and whole > most:
            yield f"As a whole the {what} deviate by {whole:.2g}; they may by {most:.2g}."
    # Running means come from the forward pass alone: what the format does to them, nothing amplifies.
    what, seen = (
        ("first updates", found.update) if not case.alone[0].running_means else ("running means", found.mean)
    )
    if seen is not None and seen < tolerance.least:
        yield (
            f"As a whole the {what} deviate from float64 by {seen:.2g} only, and this precision must by "
            f"{tolerance.least:.2g}: it was not in effect."
        )


def _worst(
    far: Sequence[str], distances: Mapping[str, float], case: ReferenceCase, tolerance: Tolerance
) -> str:
    """The one furthest beyond its own bound. Where that is made of rounding alone (its update is zero but for it),
    a relative deviation says nothing, and it is told by how many times what rounding does."""
    worst = max(far, key=lambda name: distances[name] / _allowed(name, case, tolerance.parameter or 0.0))
    noise = case.noise.get(worst, 0.0)
    if noise >= 1.0:
        return (
            f"{worst} the most: by {distances[worst] / noise:.2g} times what rounding to float32 does to it"
        )
    return f"{worst} the most: by {distances[worst]:.2g}"


def _summary(found: _Found, tolerance: Tolerance, case: ReferenceCase) -> str:
    updates = (
        ""
        if found.update is None
        else f", {len(found.updates)} first updates by {found.update:.2g} as a whole"
    )
    means = "" if found.mean is None else f", {len(found.means)} running means by {found.mean:.2g}"
    return (
        f"Over {case.steps} steps the losses deviate from the float64 reference by {max(found.losses):.2g} at most "
        f"({tolerance.losses:.2g} is allowed){updates}{means}."
    )


def _said(problems: Sequence[str], differing: Sequence[str], follows: Sequence[str]) -> Iterator[str]:
    yield from problems
    if follows:
        yield f"It follows the trajectory of: {'; or '.join(follows)}."
    if differing:
        more = f" and {len(differing) - NAMED} more" if len(differing) > NAMED else ""
        yield f"First to differ, in the order of the model: {', '.join(differing[:NAMED])}{more}."


# -- what it looks like


def _follows(
    followers: Sequence[Follower], case: ReferenceCase, tolerance: Tolerance, *, meet: bool, skipped: bool
) -> tuple[str, ...]:
    """The mistakes whose trajectories the run is on, the nearest first."""
    known: list[tuple[str, tuple[Trajectory, ...]]] = [
        (mistake.name, mistake.replicas)
        for mistake in case.mistakes
        if mistake.topology == ("pair" if meet else "alone")
    ]
    if meet and len(case.alone) > 1:
        known.append(("gradients that do not meet: each replica trains alone", case.alone))
    right = case.pair if meet else case.alone
    near = [(_excess(followers, replicas, right, case, tolerance, skipped), name) for name, replicas in known]
    return tuple(name for excess, name in sorted(near) if excess <= FOLLOWS)[:3]


def separation(mistake: Mistake, case: ReferenceCase, tolerance: Tolerance) -> float:
    """How far a mistake is from what is right, in tolerances: below 1 it could not be seen."""
    right = case.alone if mistake.topology == "alone" else case.pair
    return max(
        max(
            max(_apart(a, b) for a, b in zip(wrong.losses, other.losses, strict=True)) / tolerance.losses,
            _most(_distances([(wrong.updates, other.updates)]), case, tolerance),
            _most(_distances([(wrong.running_means, other.running_means)]), case, tolerance),
        )
        for wrong, other in zip(mistake.replicas, right, strict=False)
    )


def _excess(
    followers: Sequence[Follower],
    replicas: Sequence[Trajectory],
    right: Sequence[Trajectory],
    case: ReferenceCase,
    tolerance: Tolerance,
    skipped: bool,
) -> float:
    """How far the run is from a mistake's trajectory, in tolerances.

    A mistake may leave next to nothing of an update, and rounding stays what it is: so it is the right update that a
    deviation is held against, where that is larger.
    """
    worst = 0.0
    for one in followers:
        if one.index >= len(replicas) and len(replicas) < 2:
            continue  # the mistake is known for the first shard only
        other = replicas[one.index % 2]
        losses = (_apart(a, b) for a, b in zip(one.losses, other.losses, strict=True))
        worst = max(worst, *(apart / tolerance.losses for apart in losses))
        usual = right[one.index % len(right)]
        worst = max(worst, _most(_beside(one.updates, other.updates, usual.updates), case, tolerance))
        if not skipped:
            means = _beside(one.running_means, other.running_means, usual.running_means)
            worst = max(worst, _most(means, case, tolerance))
    return worst


def _beside(
    ours: Mapping[str, Fingerprint], theirs: Mapping[str, Fingerprint], usual: Mapping[str, Fingerprint]
) -> dict[str, float]:
    """Name → the distance, for all that both have."""
    return {
        name: distance(ours[name], theirs[name], usual[name][0] if name in usual else 0.0)
        for name in theirs
        if name in ours
    }


def _most(distances: Mapping[str, float], case: ReferenceCase, tolerance: Tolerance) -> float:
    bound = tolerance.updates if tolerance.parameter is None else tolerance.parameter
    return max((apart / _allowed(name, case, bound) for name, apart in distances.items()), default=0.0)
