"""The integrity verdict on the window itself: whether its steps were the training steps that parity verifies.

Four kinds of evidence are used, all taken outside the measured window. The batches: each step was given the labels that
were due. The state: over the window every tensor changes, and the framework counts an update for each step. The
losses: while they move, no step repeats the loss before it. The audit: after the window the trainer is reset, and
must repeat the losses of its first steps, in about the time that the window's steps took.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Iterator, Sequence

from dlperf_sdk.results.integrity import Expected, state_first
from dlperf_sdk.results.records import Record, Repeat, Replica, TensorChanges
from dlperf_sdk.results.result import FAIL, INCONCLUSIVE, INTEGRITY, PASS, Verdict
from dlperf_sdk.spec.precision import PRECISIONS
from dlperf_sdk.spec.strategy import STRATEGIES

NAME = "window-verified"

LOSS_MARGIN = 0.05
"""Maximum difference between a loss of the audit and that of the first steps, as a fraction of how far the first
steps moved the loss."""
DROPOUT_MARGIN = 0.3
"""The same fraction if dropout draws other masks. A larger difference makes the verdict inconclusive, since few
samples are noisy."""
REST = 1e-5
"""A loss that changes by less than this fraction has come to rest."""
REPEATED = 0.02
"""Maximum fraction of a window's steps, but at least one step, that may by chance have the same loss as the step
before."""
FASTEST = 1 / 2
"""Minimum of the window's median and mean step time, as a fraction of the audit's fastest step. A host that
prepares a step while the device computes the previous one can halve the time; the audit waits for the device
after each step."""
TIMED = 0.005
"""Seconds. Faster steps of the audit are not compared, because the cost of synchronizing each dominates."""
PRECISELY_TIMED = 0.05
"""Seconds. With audit steps of at least this length, a window that is too fast fails; with shorter ones the
verdict is inconclusive. Audit steps wait for all processes and the device, which takes milliseconds on a busy
machine."""
TIMED_REPEATS = 3
"""Minimum number of repeats for a conclusion from times: in a single one, a busy machine may have slowed the audit."""


def window_verified(repeats: tuple[Repeat, ...], expected: Expected) -> Verdict:
    """Check that the window consists of complete training steps on the batches that the data source must give.

    The evidence is the labels of the batches, the changes of parameters and optimizer state over the window, the
    losses, and the audit: the first steps, repeated after the window and a reset of the trainer. The verdict
    `window-verified` fails if any evidence contradicts such a window. It is inconclusive if evidence is missing or too
    weak: the plugin reports no labels, parameters or audit; the loss moves too little; or a correct trainer could leave
    the same evidence.

    Args:
        repeats: The finished repeats.
        expected: The planned values that the records are checked against; their part is one that trains.

    Raises:
        UnknownName: The core does not know the precision or the strategy.
    """
    failures = [
        *_state_failures(repeats, expected),
        *_batch_failures(repeats),
        *_audit_failures(repeats, expected),
        *_repeated_losses(repeats, expected),
        *(f"{clause}: work is missing in the window" for clause in too_fast(repeats, PRECISELY_TIMED)),
    ]
    return conclude(failures, _missing(repeats, expected), _checked(repeats))


def conclude(failures: Sequence[str], doubts: Iterable[str], checked: str) -> Verdict:
    """Return the verdict `window-verified`: `fail` if there is a failure, else `inconclusive` if there is a doubt.

    It is `pass` if there is neither.

    Args:
        failures: Clauses that say what is wrong; empty if nothing is. The verdict's text states the first one, and the
            number of the others.
        doubts: Clauses that say why the evidence does not suffice; empty if it does. The text states the first one.
        checked: A sentence that says what was checked. It is the text of `pass`, follows the doubt in the text of
            `inconclusive`, and is not in the text of `fail`.
    """
    if failures:
        return Verdict(NAME, INTEGRITY, FAIL, state_first(failures))
    doubt = next(iter(doubts), None)
    if doubt is not None:
        return Verdict(NAME, INTEGRITY, INCONCLUSIVE, f"{doubt}. {checked}")
    return Verdict(NAME, INTEGRITY, PASS, checked)


def locate_replicas(repeats: Sequence[Repeat]) -> Iterator[tuple[str, Record, Replica]]:
    """Yield (location, record, replica) for each replica, in the order of the repeats and their records.

    A location is a text such as `(repeat 1, replica 0)`, with the number of the attempt and the index of the replica.
    """
    for repeat in repeats:
        for record in repeat.records:
            for replica in record.replicas:
                yield f"(repeat {repeat.attempt}, replica {replica.index})", record, replica


def _state_failures(repeats: Sequence[Repeat], expected: Expected) -> Iterator[str]:
    for location, record, replica in locate_replicas(repeats):
        if not _excuse(replica, record):
            for kind, changes in replica.changes.items():
                if _is_unchanged(kind, changes, replica):
                    first = (*changes.unchanged, *changes.zeros)[0]
                    yield (
                        f"{changes.unchanged_count} of {changes.tensors} {kind.replace('-', ' ')} did not change in "
                        f"the window, {first} for one {location}"
                    )
        steps_taken = len(record.step_times) - record.skipped_steps
        # With asynchronous replicas, the count may be that of variables that all replicas update.
        upper = math.inf if STRATEGIES[expected.strategy].is_asynchronous else steps_taken
        if record.updates is not None and not steps_taken <= record.updates <= upper:
            yield (
                f"the optimizer counted {record.updates} updates in the window, where {steps_taken} steps were taken "
                f"(rank {record.rank}) {location}"
            )


def _batch_failures(repeats: Sequence[Repeat]) -> Iterator[str]:
    for location, _, replica in locate_replicas(repeats):
        yield from (f"{clause} {location}" for clause in unexpected_labels(replica))


def unexpected_labels(replica: Replica) -> Iterator[str]:
    """Yield one clause if batches of the window had other labels than the data source must give; else nothing."""
    unexpected = replica.batches.unexpected
    if unexpected:
        yield (
            f"{len(unexpected)} of {replica.batches.compared} batches of the window have other labels than the data "
            f"source must give, step {unexpected[0]} for one"
        )


def _is_unchanged(kind: str, changes: TensorChanges, replica: Replica) -> bool:
    """Return True if tensors of this kind did not change although training steps change them.

    Single ones may stay: a gamma near 1 whose update is below its last bit, while the optimizer's moments show it; and
    what is zero, such as moments of parameters whose gradients have been below the smallest number of the precision.
    """
    if kind == "parameters":
        has_moments = "moments" in replica.changes and replica.changes["moments"].tensors > 0
        return 0 < changes.unchanged_count == changes.tensors or (bool(changes.unchanged) and not has_moments)
    return bool(changes.unchanged)


def _excuse(replica: Replica, record: Record) -> str | None:
    """Return the reason why even a correct trainer would leave the state unchanged; None if there is none."""
    if 0 < len(record.step_times) <= record.skipped_steps:
        return "The loss scaler skipped all steps of the window; take more warm-up steps"
    if _came_to_rest(replica):
        return "The loss had come to rest before the window; take fewer steps, or a larger model"
    return None


def _came_to_rest(replica: Replica) -> bool:
    """Return True if the losses before the window approached the value at which they stay.

    A trainer that ceases to train stops in the middle of its way: its last change is not small.
    """
    losses = (*replica.canonical_losses, *replica.warmup_losses, *replica.losses)
    changes = [abs(after - before) for before, after in itertools.pairwise(losses)]
    moves = [change for change in changes if change > 0]
    return bool(moves) and moves[-1] <= REST * max(map(abs, losses))


def _audit_failures(repeats: Sequence[Repeat], expected: Expected) -> Iterator[str]:
    for location, first, audited in _trajectories(repeats, expected.strategy):
        if not audited or not all(map(math.isfinite, first)):
            continue  # missing evidence is a doubt, and `finite-loss` reports losses that are not finite
        if len(first) != len(audited):
            yield f"the audit has {len(audited)} losses instead of {len(first)} {location}"
        elif not all(map(math.isfinite, audited)):
            yield f"a loss of the audit is not finite {location}"
        elif STRATEGIES[expected.strategy].is_asynchronous:
            if _moves(first, expected) and _movement(audited) <= _rounding(first, expected):
                yield f"the loss stays at {audited[0]:.6g} in the audit {location}"
        elif not _redraws(repeats, expected):
            difference = _other_losses(first, audited, expected, LOSS_MARGIN)
            if difference:
                yield f"{difference}: the trainer no longer does what it did there {location}"


def _audit_doubts(repeats: Sequence[Repeat], expected: Expected) -> Iterator[str]:
    for location, first, audited in _trajectories(repeats, expected.strategy):
        if not audited:
            yield (
                "There is no audit: the protocol has no canonical steps, or the plugin's trainer cannot be reset "
                f"{location}"
            )
        elif not _moves(first, expected):
            yield f"The first steps move the loss too little for the audit to show anything {location}"
        elif STRATEGIES[expected.strategy].is_asynchronous:
            if min(audited[1:], default=math.inf) >= audited[0]:
                yield f"The loss does not fall in the audit, from {audited[0]:.6g} on {location}"
        elif _redraws(repeats, expected):
            difference = _other_losses(first, audited, expected, DROPOUT_MARGIN)
            if difference:
                yield f"Dropout draws other masks, which may explain that {difference} {location}"


def _redraws(repeats: Sequence[Repeat], expected: Expected) -> bool:
    """Return True if dropout drew other masks in the audit than in the first steps."""
    return expected.has_dropout and not all(record.audit_seeded for _, record, _ in locate_replicas(repeats))


def _other_losses(
    first: Sequence[float], audited: Sequence[float], expected: Expected, margin: float
) -> str | None:
    """Return a clause if the audit's losses are others than those of the first steps, else None."""
    limit = margin * _movement(first) + _rounding(first, expected)
    distances = [abs(loss - audited_loss) for loss, audited_loss in zip(first, audited, strict=True)]
    step = max(range(len(distances)), key=distances.__getitem__)
    if distances[step] <= limit:
        return None
    return (
        f"after a reset behind the window the loss of step {step} is {audited[step]:.6g}, and was {first[step]:.6g} in "
        f"the first steps (limit ±{limit:.2g})"
    )


def _trajectories(
    repeats: Sequence[Repeat], strategy: str
) -> Iterator[tuple[str, Sequence[float], Sequence[float]]]:
    """Yield where, the losses of the first steps and those of the audit: of replicas, or of their mean.

    Where replicas are asynchronous, the loss of one may belong to no state that the model was in.
    """
    if not STRATEGIES[strategy].is_asynchronous:
        for location, _, replica in locate_replicas(repeats):
            yield location, replica.canonical_losses, replica.audit_losses
        return
    for repeat in repeats:
        replicas = [replica for _, _, replica in locate_replicas((repeat,))]
        first, audited = (
            [statistics.fmean(step) for step in zip(*losses, strict=False)]
            for losses in (
                [replica.canonical_losses for replica in replicas],
                [replica.audit_losses for replica in replicas],
            )
        )
        yield f"(repeat {repeat.attempt}, mean of all replicas)", first, audited


def _movement(losses: Sequence[float]) -> float:
    return max((abs(loss - losses[0]) for loss in losses), default=0.0)


def _rounding(losses: Sequence[float], expected: Expected) -> float:
    """Return how far a step's loss may be from itself in two runs, by rounding alone."""
    return PRECISIONS[expected.precision].loss_tolerance * max(map(abs, losses), default=0.0)


def _moves(losses: Sequence[float], expected: Expected) -> bool:
    """Return True if the losses move so far that a step that does nothing would show."""
    return _movement(losses) > 3 * _rounding(losses, expected)


def _repeated_losses(repeats: Sequence[Repeat], expected: Expected) -> Iterator[str]:
    """Yield a sentence if steps have exactly the loss of the step before, while the loss moves: nothing was updated.

    Asynchronous replicas may read the same weights twice.
    """
    if STRATEGIES[expected.strategy].is_asynchronous:
        return
    for location, record, replica in locate_replicas(repeats):
        steps = _steps_without_update(replica, expected)
        permitted = record.skipped_steps + max(1, REPEATED * len(replica.losses))
        if len(steps) > permitted:
            yield (
                f"{len(steps)} of {len(replica.losses)} steps of the window have exactly the loss of the step before, "
                f"step {steps[0]} for one: there was no update between them {location}"
            )


def _steps_without_update(replica: Replica, expected: Expected) -> list[int]:
    """Return the steps of the window that repeat the loss of the step before, after a change well above rounding."""
    earlier = (*replica.canonical_losses, *replica.warmup_losses)
    losses = (*earlier, *replica.losses)
    rest = REST * max(map(abs, losses), default=0.0)
    steps, last_move = [], 0.0
    for step, (before, after) in enumerate(itertools.pairwise(losses), start=1 - len(earlier)):
        if after != before:
            last_move = abs(after - before)
        elif step > 0 and last_move > max(rest, 3 * _rounding((after,), expected)):
            steps.append(step)
    return steps


def too_fast(repeats: Sequence[Repeat], shortest: float) -> Iterator[str]:
    """Yield one clause if, on every rank of every repeat, the window's steps are much faster than those of the audit.

    The audit runs after the window. It repeats the first steps of the repeat, and waits for the device after each.
    Steps of the window are much faster if the mean or the median of their times, the smaller one, is less than
    `FASTEST` (1/2) times the audit's fastest step.

    Args:
        repeats: The finished repeats. With fewer than `TIMED_REPEATS` (3), nothing is yielded.
        shortest: Seconds. Only ranks whose steps in the audit all took at least this long are compared.
    """
    shares = [share for repeat in repeats for share in _shares(repeat, shortest)]
    if len(repeats) >= TIMED_REPEATS and shares and max(shares) < FASTEST:
        yield (
            f"in each of {len(repeats)} repeats the typical step of the window took at most {max(shares):.2f} of the "
            f"fastest step of the audit (limit {FASTEST:.2f})"
        )


def _shares(repeat: Repeat, shortest: float) -> Iterator[float]:
    """Yield for each rank the window's median or mean step, the shorter one, as a share of the audit's fastest."""
    for record in repeat.records:
        fastest = min(record.audit_step_times, default=0.0)
        if fastest >= shortest and record.step_times:
            mean = record.window.seconds / len(record.step_times)
            yield min(statistics.median(record.step_times), mean) / fastest


def _missing(repeats: Sequence[Repeat], expected: Expected) -> Iterator[str]:
    """Yield the reasons for which the evidence does not suffice."""
    for location, record, replica in locate_replicas(repeats):
        parameters = replica.changes.get("parameters")
        if parameters is None or not parameters.tensors:
            yield f"No parameters were compared over the window {location}"
        if replica.batches.compared < len(replica.losses):
            yield (
                f"The batches of the window were not compared with those that are due: the plugin's trainer gives no "
                f"labels, or the data source is the plugin's own {location}"
            )
        excuse = _excuse(replica, record)
        for kind, changes in replica.changes.items():
            of_all = f"of {changes.tensors} {kind.replace('-', ' ')}"
            if excuse and _is_unchanged(kind, changes, replica):
                yield f"{excuse}: {changes.unchanged_count} {of_all} did not change {location}"
            elif changes.zeros:
                yield (
                    f"{len(changes.zeros)} {of_all} are zero at the start and the end of the window, "
                    f"{changes.zeros[0]} for one {location}"
                )
    yield from _audit_doubts(repeats, expected)
    for clause in too_fast(repeats, TIMED):
        yield f"Work is missing in the window, or the machine was busy: {clause}"


def _checked(repeats: Sequence[Repeat]) -> str:
    """Return what was checked, and what could not be."""
    replicas = list(locate_replicas(repeats))
    counts = {
        kind: min(
            (replica.changes[kind].tensors for *_, replica in replicas if kind in replica.changes), default=0
        )
        for kind in ("parameters", "moments", "running-means")
    }
    compared_counts = ", ".join(
        f"{count} {kind.replace('-', ' ')}" for kind, count in counts.items() if count
    )
    not_reported = [] if counts["moments"] else ["moments"]
    if any(record.updates is None for _, record, _ in replicas):
        not_reported.append("the optimizer's own count of updates")
    steps = min((len(replica.audit_losses) for *_, replica in replicas), default=0)
    batches = min((replica.batches.compared for *_, replica in replicas), default=0)
    compared = f"{compared_counts or 'nothing'}, {batches} batches"
    sentence = f"Compared over the window: {compared}; repeated behind it after a reset: {steps} steps"
    return f"{sentence}; not reported: {' and '.join(not_reported)}." if not_reported else f"{sentence}."
