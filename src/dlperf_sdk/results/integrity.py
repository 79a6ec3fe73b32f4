"""Integrity verdicts: the validity checks that decide the exit code."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from attrs import frozen

from dlperf_sdk.results.records import Record, Repeat, Replica
from dlperf_sdk.results.result import FAIL, INCONCLUSIVE, INTEGRITY, NOT_APPLICABLE, PASS, Verdict
from dlperf_sdk.spec.compiler import COMPILERS, NONE
from dlperf_sdk.spec.part import PARTS
from dlperf_sdk.spec.precision import PRECISIONS
from dlperf_sdk.spec.protocol import Protocol
from dlperf_sdk.spec.strategy import STRATEGIES


@frozen
class Expected:
    """Values of the planned case that the records are checked against.

    The names of precision, strategy and part are those of `PRECISIONS`, `STRATEGIES` and `PARTS`: checks that look up
    another name raise an `UnknownName`.
    """

    request: str
    """Id of the request, which every record carries."""
    ranks: int
    """Number of trainer processes."""
    replicas: int
    """Number of replicas on all nodes."""
    batch_size: int
    """Samples per replica and step."""
    precision: str
    """Name of the requested precision. The fields below are requested settings, too."""
    strategy: str
    """Name of the method of gradient synchronization."""
    protocol: Protocol
    """Numbers of steps and repeats."""
    learning_rate_policy: str = "constant"
    """`constant` or `warmup`."""
    compiler: str = COMPILERS.default
    """Name of the compiler."""
    layout: str = "auto"
    """`auto`, `nchw` or `nhwc`."""
    has_dropout: bool = False
    """True if the model drops units at random."""
    part: str = PARTS.default
    """Name of the part of a step that was measured."""
    parameters: int = 0
    """Number of the model's trainable parameters."""

    @property
    def has_losses(self) -> bool:
        """True if the measured part of a step trains, so that each step has a loss.

        Raises:
            UnknownName: The core does not know the part.
        """
        return PARTS[self.part].trains


def complete_records(repeats: tuple[Repeat, ...], expected: Expected) -> Verdict:
    """Check that the records are complete. The verdict is `pass` or `fail`.

    Records are complete if the protocol's number of repeats finished, their attempt numbers are distinct, and each
    repeat has one record of every rank. Each record must belong to the expected request, and must have every replica,
    the expected numbers of step times, data waits, losses and samples, and a window of positive, finite length.

    Args:
        repeats: The finished repeats; may be empty.
        expected: The planned values that the records are checked against.

    Raises:
        UnknownName: The core does not know the part of a step that `expected.part` names.
    """
    problems = list(_incomplete(repeats, expected))
    if problems:
        return Verdict("complete-records", INTEGRITY, FAIL, state_first(problems))
    protocol = expected.protocol
    detail = (
        f"Repeats: {len(repeats)}, records in each: {expected.ranks}, replicas: {expected.replicas}, each with "
        f"{protocol.steps} steps of {expected.batch_size} samples in the window."
    )
    return Verdict("complete-records", INTEGRITY, PASS, detail)


def state_first(problems: Sequence[str]) -> str:
    """Return a sentence with the first of several problems and, if there are others, their number: `(2 more)`.

    `problems` are clauses without a full stop.

    Raises:
        IndexError: There is no problem.
    """
    remainder = f" ({len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{problems[0]}{remainder}."


def _incomplete(repeats: tuple[Repeat, ...], expected: Expected) -> Iterator[str]:
    if len(repeats) < expected.protocol.repeats:
        yield f"{len(repeats)} of {expected.protocol.repeats} repeats finished"
    if len({repeat.attempt for repeat in repeats}) < len(repeats):
        yield "two repeats carry the same number"
    for repeat in repeats:
        location = f"repeat {repeat.attempt}"
        ranks = sorted(record.rank for record in repeat.records)
        if not _is_contiguous(ranks, expected.ranks):
            yield f"{location} has records of ranks {ranks} instead of 0 to {expected.ranks - 1}"
        replicas = sorted(replica.index for record in repeat.records for replica in record.replicas)
        if not _is_contiguous(replicas, expected.replicas):
            yield f"{location} has replicas {replicas} instead of 0 to {expected.replicas - 1}"
        for record in repeat.records:
            for problem in _incomplete_record(record, repeat, expected):
                yield f"{location}, rank {record.rank}: {problem}"


def _is_contiguous(numbers: list[int], count: int) -> bool:
    """Return True if `numbers` are 0 to count - 1.

    `count` is untrusted input from a file and may be huge, so no range of that length is built.
    """
    return len(numbers) == count and numbers == list(range(len(numbers)))


def _incomplete_record(record: Record, repeat: Repeat, expected: Expected) -> Iterator[str]:
    protocol = expected.protocol
    if record.request != expected.request or record.attempt != repeat.attempt:
        yield f"the record belongs to repeat {record.attempt} of request {record.request!r}"
    counts = [
        ("step times", len(record.step_times), protocol.steps),
        ("data waits", len(record.data_waits), protocol.steps),
    ]
    for replica in record.replicas:
        label = f"losses of replica {replica.index}"
        losses = [
            (f"canonical {label}", len(replica.canonical_losses), protocol.canonical_steps),
            (f"warm-up {label}", len(replica.warmup_losses), protocol.warmup),
            (label, len(replica.losses), protocol.steps),
        ]
        counts += [(item, count, steps if expected.has_losses else 0) for item, count, steps in losses]
    for item, actual_count, expected_count in counts:
        if actual_count != expected_count:
            yield f"{actual_count} {item} instead of {expected_count}"
    samples = expected.batch_size * protocol.steps * len(record.replicas)
    if record.samples != samples:
        yield f"{record.samples} samples instead of {samples}"
    if not 0 < record.window.seconds < math.inf:
        yield f"the window lasted {record.window.seconds} s"


def finite_loss(repeats: tuple[Repeat, ...]) -> Verdict:
    """Check that no loss in the records of `repeats` is NaN or infinite.

    Losses on the canonical batch, in the warm-up and in the window are checked. The text of a failed verdict names the
    first step with such a loss. Without any loss, the verdict is inconclusive.

    A loss scaler does not affect the check. It skips a step whose gradients overflow, but the reported loss of that
    step is not scaled, and so it is finite.
    """
    count = 0
    for location, losses in _losses(repeats):
        for step, loss in enumerate(losses):
            if not math.isfinite(loss):
                return Verdict(
                    "finite-loss", INTEGRITY, FAIL, f"The loss of step {step} {location} is {loss}."
                )
        count += len(losses)
    if not count:
        return Verdict("finite-loss", INTEGRITY, INCONCLUSIVE, "There is no loss to check.")
    skipped = sum(max(record.skipped_steps for record in repeat.records) for repeat in repeats)
    note = f" The loss scaler skipped {skipped} steps." if skipped else ""
    return Verdict("finite-loss", INTEGRITY, PASS, f"All {count} losses are finite.{note}")


def _losses(repeats: tuple[Repeat, ...]) -> Iterator[tuple[str, tuple[float, ...]]]:
    for attempt, replica in _replicas(repeats):
        location = f"(repeat {attempt}, replica {replica.index})"
        yield f"on the canonical batch {location}", replica.canonical_losses
        yield f"in the warm-up {location}", replica.warmup_losses
        yield f"in the window {location}", replica.losses


def loss_falls(
    repeats: tuple[Repeat, ...], learning_rate_policy: str = "constant", strategy: str = STRATEGIES.default
) -> Verdict:
    """Check that the loss of every replica falls below its first value during the steps on the canonical batch.

    With an asynchronous strategy, the mean over the replicas is checked. The verdict is inconclusive if there are
    fewer than two steps on the canonical batch. With the learning-rate policy `warmup`, whose first
    rates are close to zero, it is also inconclusive if the losses are finite but do not fall.

    Args:
        repeats: The finished repeats; without any, the verdict is `pass`.
        learning_rate_policy: `constant` or `warmup`.
        strategy: Name of the strategy, one of `STRATEGIES`.

    Raises:
        UnknownName: The core does not know the strategy.
    """
    name, kind, smallest_fall = "loss-falls", INTEGRITY, math.inf
    for attempt, label, losses in _canonical(repeats, strategy):
        if len(losses) < 2:
            detail = f"{len(losses)} steps on the canonical batch; it takes two to see the loss fall."
            return Verdict(name, kind, INCONCLUSIVE, detail)
        fall = losses[0] - min(losses[1:])
        if not fall > 0:  # also True if one of them is NaN
            series = ", ".join(f"{loss:.6g}" for loss in losses)
            detail = (
                f"On the canonical batch the loss never gets below its first value (repeat {attempt}, {label}): "
                f"{series}."
            )
            ramps = learning_rate_policy == "warmup" and all(map(math.isfinite, losses))
            return Verdict(name, kind, INCONCLUSIVE if ramps else FAIL, detail)
        smallest_fall = min(smallest_fall, fall)
    detail = f"On the canonical batch the loss of every replica falls, by {smallest_fall:.3g} at least."
    return Verdict(name, kind, PASS, detail)


def _canonical(repeats: tuple[Repeat, ...], strategy: str) -> Iterator[tuple[int, str, Sequence[float]]]:
    """Yield the attempt, a label, and the losses on the canonical batch that are checked.

    With asynchronous parameter servers, a replica reads a model that the others update meanwhile. Its loss may
    belong to no state of the model, so the mean over the replicas is checked.
    """
    if not STRATEGIES[strategy].is_asynchronous:
        for attempt, replica in _replicas(repeats):
            yield attempt, f"replica {replica.index}", replica.canonical_losses
        return
    for repeat in repeats:
        steps = zip(*(replica.canonical_losses for _, replica in _replicas((repeat,))), strict=False)
        yield repeat.attempt, "mean of all replicas", [sum(step) / len(step) for step in steps]


def _replicas(repeats: tuple[Repeat, ...]) -> Iterator[tuple[int, Replica]]:
    for repeat in repeats:
        for record in repeat.records:
            for replica in record.replicas:
                yield repeat.attempt, replica


def replicas_equal(repeats: tuple[Repeat, ...], strategy: str) -> Verdict:
    """Check that all replicas have equal trainable parameters at the end of each repeat, by their digests.

    The verdict is not applicable if the strategy does not keep replicas equal, and inconclusive if a digest is
    missing. With fewer than two replicas it is `pass`.

    Args:
        repeats: The finished repeats.
        strategy: Name of the strategy, one of `STRATEGIES`.

    Raises:
        UnknownName: The core does not know the strategy.
    """
    name, kind = "replicas-equal", INTEGRITY
    if not STRATEGIES[strategy].keeps_replicas_equal:
        detail = f"The strategy {strategy} does not keep replicas equal."
        return Verdict(name, kind, NOT_APPLICABLE, detail)
    replica_count = 0
    for repeat in repeats:
        pairs = [(replica.index, replica.digest) for record in repeat.records for replica in record.replicas]
        if not all(digest for _, digest in pairs):
            missing = next(index for index, digest in pairs if not digest)
            detail = f"Replica {missing} gave no digest of its parameters (repeat {repeat.attempt})."
            return Verdict(name, kind, INCONCLUSIVE, detail)
        if len({digest for _, digest in pairs}) > 1:
            described = ", ".join(f"{index}: {digest[:12]}" for index, digest in sorted(pairs))
            detail = f"In repeat {repeat.attempt} the replicas end with different parameters ({described})."
            return Verdict(name, kind, FAIL, detail)
        replica_count = max(replica_count, len(pairs))
    if replica_count < 2:
        return Verdict(name, kind, PASS, "One replica: there is nothing to compare.")
    detail = f"In each of {len(repeats)} repeats all {replica_count} replicas end with the same parameters."
    return Verdict(name, kind, PASS, detail)


def precision_effective(repeats: tuple[Repeat, ...], precision: str) -> Verdict:
    """Check that the requested precision was in effect.

    Each trainer's outputs must deviate from fp32 by an amount within the bounds of the precision, and a precision
    that a trainer reports must be the requested one. The verdict is inconclusive in two cases:

    - A trainer reports no deviation.
    - The precision rounds more coarsely than fp32, the trainer reports this precision, and the deviation is finite but
      above the upper bound. Then the network amplifies rounding.

    Args:
        repeats: The finished repeats.
        precision: Name of the requested precision, one of `PRECISIONS`.

    Raises:
        UnknownName: The core does not know the precision.
    """
    name, kind, bounds = "precision-effective", INTEGRITY, PRECISIONS[precision]
    records = [(repeat.attempt, record) for repeat in repeats for record in repeat.records]
    for attempt, record in records:
        observed = record.observed.get("precision", precision)
        if observed != precision:
            detail = f"requested {precision}, used {observed} (repeat {attempt}, rank {record.rank})."
            return Verdict(name, kind, FAIL, detail)
    amplified: Verdict | None = None
    limits = (
        f"limit {bounds.high:.2g}"
        if not bounds.is_narrow
        else f"limits {bounds.low:.2g} to {bounds.high:.2g}"
    )
    for attempt, record in records:
        deviation = record.deviation
        if deviation is not None and not bounds.low <= deviation <= bounds.high:
            is_evidence = bounds.is_narrow and record.observed.get("precision") == precision
            if is_evidence and bounds.high < deviation < math.inf:
                # An ill-conditioned network (a large last gamma, few values per batch norm) amplifies rounding.
                detail = (
                    f"used {precision}; max deviation from fp32: {deviation:.3g} ({limits}): this network amplifies "
                    f"rounding (repeat {attempt}, rank {record.rank})."
                )
                amplified = amplified or Verdict(name, kind, INCONCLUSIVE, detail)
                continue  # another rank may fail
            too_close = deviation < bounds.low
            cause = f"{precision} was not in effect" if too_close else "coarser or wrong arithmetic"
            location = f"(repeat {attempt}, rank {record.rank})"
            detail = f"max deviation from fp32: {deviation:.3g} ({limits}): {cause} {location}."
            return Verdict(name, kind, FAIL, detail)
    if amplified is not None:
        return amplified
    known = [record.deviation for _, record in records if record.deviation is not None]
    if len(known) < len(records) or not known:
        return Verdict(
            name,
            kind,
            INCONCLUSIVE,
            "The trainer reports no deviation from fp32, so the precision used is not verified.",
        )
    return Verdict(name, kind, PASS, f"max deviation from fp32: {max(known):.3g} ({limits}).")


def as_requested(repeats: tuple[Repeat, ...], compiler: str, layout: str) -> Verdict:
    """Check that the requested compiler and layout are those that the trainers report.

    The verdict is `fail` if a trainer reports another setting, and else `inconclusive` if a trainer does not report a
    requested setting. A trainer need not report the compiler `none`.

    Args:
        repeats: The finished repeats.
        compiler: Name of the requested compiler.
        layout: The requested layout of images: `nchw`, `nhwc`, or `auto`, which is not checked.
    """
    name, kind = "as-requested", INTEGRITY
    requested = {"compiler": compiler, **({} if layout == "auto" else {"layout": layout})}
    inconclusive: Verdict | None = None
    for attempt, record in ((repeat.attempt, record) for repeat in repeats for record in repeat.records):
        location = f"(repeat {attempt}, rank {record.rank})"
        for setting, value in requested.items():
            observed = record.observed.get(setting)
            if observed is None and value != NONE:
                detail = f"requested {setting} {value}; the trainer does not report what it used {location}."
                inconclusive = inconclusive or Verdict(name, kind, INCONCLUSIVE, detail)
            elif observed not in (None, value):
                detail = (
                    f"requested {setting} {value}, used {observed} {location}. Request what was used, or fix the "
                    "plugin: it must do what it declares, or refuse it."
                )
                return Verdict(name, kind, FAIL, detail)
    if inconclusive is not None:
        return inconclusive
    if compiler == NONE and layout == "auto":
        return Verdict(name, kind, PASS, "No compiler and no layout was requested, and no compiler was used.")
    ran = " and ".join(f"the {setting} {value}" for setting, value in requested.items())
    return Verdict(name, kind, PASS, f"Used as requested: {ran}.")
