"""All verdicts on the records of a case, each declared once in `VERDICTS`."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from dlperf_sdk.results import integrity, metrics, quality, window_verification
from dlperf_sdk.results.integrity import Expected
from dlperf_sdk.results.part_verification import part_window_verified
from dlperf_sdk.results.records import Repeat
from dlperf_sdk.results.result import INCONCLUSIVE, INTEGRITY, NOT_APPLICABLE, QUALITY, Parity, Verdict
from dlperf_sdk.spec.part import PARTS
from dlperf_sdk.spec.table import Table

__all__ = ["VERDICTS", "Check", "Expected", "integrity_of", "judge"]

Judgement = Callable[[tuple[Repeat, ...], Expected], Verdict]
"""Function that returns a verdict on the records of a case. It has no side effects."""


@frozen(kw_only=True)
class Check:
    """Declaration of a verdict. Texts, tables and documentation are made from it."""

    name: str
    """Name of the verdict."""
    kind: str
    """`integrity` decides whether the number is valid; `quality` tells how precise it is."""
    passes_if: str
    """Condition for a pass, as a clause."""
    judge: Judgement | None
    """Function that returns the verdict; None for `parity`, whose evidence is a separate run."""


VERDICTS = Table(
    "verdict",
    (
        Check(
            name="complete-records",
            kind=INTEGRITY,
            passes_if="every rank of every repeat wrote a complete record",
            judge=integrity.complete_records,
        ),
        Check(
            name="finite-loss",
            kind=INTEGRITY,
            passes_if="all losses are finite numbers",
            judge=lambda repeats, _: integrity.finite_loss(repeats),
        ),
        Check(
            name="loss-falls",
            kind=INTEGRITY,
            passes_if="on the canonical batch, the loss of every replica falls below its first value",
            judge=lambda repeats, expected: integrity.loss_falls(
                repeats, expected.learning_rate_policy, expected.strategy
            ),
        ),
        Check(
            name="replicas-equal",
            kind=INTEGRITY,
            passes_if="all replicas end with equal parameters",
            judge=lambda repeats, expected: integrity.replicas_equal(repeats, expected.strategy),
        ),
        Check(
            name="precision-effective",
            kind=INTEGRITY,
            passes_if="the deviation of the outputs from those of fp32 is within the limits of the requested "
            "precision, and the trainer reports no other precision",
            judge=lambda repeats, expected: integrity.precision_effective(repeats, expected.precision),
        ),
        Check(
            name="as-requested",
            kind=INTEGRITY,
            passes_if="the compiler and the layout that the trainer reports are the requested ones",
            judge=lambda repeats, expected: integrity.as_requested(
                repeats, expected.compiler, expected.layout
            ),
        ),
        Check(
            name=window_verification.NAME,
            kind=INTEGRITY,
            passes_if="every step of the window has the batch that is due, the state and the loss change in the "
            "window, and after a reset of the trainer the first steps have the same losses again; for a part that does "
            "not train, the state does not change, and the batches are those that are due, or the exchanged arrays "
            "hold the mean over the replicas",
            judge=lambda repeats, expected: (
                window_verification.window_verified(repeats, expected)
                if PARTS[expected.part].trains
                else part_window_verified(repeats, expected)
            ),
        ),
        Check(
            name="parity",
            kind=INTEGRITY,
            passes_if="in a short extra run with the same code, settings, environment and device, the losses and the "
            "first updates agree with the model's float64 reference",
            judge=None,
        ),
        Check(
            name="steady-state",
            kind=QUALITY,
            passes_if="the mean step time of the window is shown to be within 1 % of the stationary mean, which is "
            "that of an endless window; `fail` if it is shown not to be, else `inconclusive`",
            judge=lambda repeats, expected: quality.steady_state(repeats, expected.protocol.warmup),
        ),
        Check(
            name="spread",
            kind=QUALITY,
            passes_if="the standard deviation between repeats, estimated from their mean difference, is at most 2 % of "
            "the median",
            judge=lambda repeats, _: quality.spread(repeats),
        ),
        Check(
            name="stopping-rule",
            kind=QUALITY,
            passes_if="the run took as many repeats as the stopping rule of its protocol requires",
            judge=lambda repeats, expected: quality.stopping_rule(repeats, expected.protocol),
        ),
    ),
)
"""Every verdict, integrity first."""


def judge(
    repeats: tuple[Repeat, ...], expected: Expected, parity: Parity | None = None
) -> tuple[Verdict, ...]:
    """Return all verdicts on a case, in the order of `VERDICTS`. The function has no side effects.

    If a window has no length, all quality verdicts are inconclusive.

    Args:
        repeats: The finished repeats, at least one, each with records.
        expected: The planned values that the records are checked against.
        parity: Evidence of the parity run; without it, there is no verdict `parity`.

    Raises:
        UnknownName: The core does not know the precision, the strategy or the part of a step.
    """
    return (
        *integrity_of(repeats, expected),
        *(() if parity is None else (Verdict("parity", INTEGRITY, parity.outcome, parity.detail),)),
        *_quality(repeats, expected),
    )


def integrity_of(repeats: tuple[Repeat, ...], expected: Expected) -> tuple[Verdict, ...]:
    """Return the integrity verdicts that follow from the records alone, in the order of `VERDICTS`: all but `parity`.

    A verdict that does not apply to the part of a step is included as `not-applicable`. The function has no side
    effects.

    Args:
        repeats: The finished repeats, at least one.
        expected: The planned values that the records are checked against.

    Raises:
        UnknownName: The core does not know the precision, the strategy or the part of a step.
    """
    return _judgements(INTEGRITY, repeats, expected)


def _quality(repeats: tuple[Repeat, ...], expected: Expected) -> tuple[Verdict, ...]:
    if all(metrics.window_seconds(repeat) > 0 for repeat in repeats):
        return _judgements(QUALITY, repeats, expected)
    names = (check.name for check in VERDICTS if check.kind == QUALITY)
    return tuple(Verdict(name, QUALITY, INCONCLUSIVE, "A window has no length.") for name in names)


def _judgements(kind: str, repeats: tuple[Repeat, ...], expected: Expected) -> tuple[Verdict, ...]:
    return tuple(
        check.judge(repeats, expected)
        if check.name not in PARTS[expected.part].inapplicable
        else Verdict(
            check.name, kind, NOT_APPLICABLE, PARTS[expected.part].explain_not_applicable(check.name)
        )
        for check in VERDICTS
        if check.kind == kind and check.judge
    )
