"""All verdicts on the records of a case."""

from __future__ import annotations

from dlperf_sdk.results import integrity, metrics, quality, window_verification
from dlperf_sdk.results.integrity import Expected
from dlperf_sdk.results.records import Repeat
from dlperf_sdk.results.result import INCONCLUSIVE, INTEGRITY, QUALITY, Parity, Verdict

__all__ = ["Expected", "integrity_of", "judge"]


def judge(
    repeats: tuple[Repeat, ...], expected: Expected, parity: Parity | None = None
) -> tuple[Verdict, ...]:
    """Return all verdicts on a case with at least one finished repeat, integrity first; pure.

    Integrity decides whether the number is valid (`complete-records`, `finite-loss`, `loss-falls`,
    `replicas-equal`, `precision-effective`, `as-requested`, `window-verified`, and `parity` where there is evidence,
    from a run of its own), quality how precise it is (`steady-state`, `spread`, `stopping-rule`).
    """
    return (
        *integrity_of(repeats, expected),
        *(() if parity is None else (Verdict("parity", INTEGRITY, parity.outcome, parity.detail),)),
        *_quality(repeats, expected),
    )


def integrity_of(repeats: tuple[Repeat, ...], expected: Expected) -> tuple[Verdict, ...]:
    """Return the integrity verdicts that the records alone give: all but `parity`; pure."""
    return (
        integrity.complete_records(repeats, expected),
        integrity.finite_loss(repeats),
        integrity.loss_falls(repeats, expected.learning_rate_policy, expected.strategy),
        integrity.replicas_equal(repeats, expected.strategy),
        integrity.precision_effective(repeats, expected.precision),
        integrity.as_requested(repeats, expected.compiler, expected.layout),
        window_verification.window_verified(repeats, expected),
    )


def _quality(repeats: tuple[Repeat, ...], expected: Expected) -> tuple[Verdict, ...]:
    if not all(metrics.seconds(repeat) > 0 for repeat in repeats):
        detail = "A window has no length."
        names = ("steady-state", "spread", "stopping-rule")
        return tuple(Verdict(name, QUALITY, INCONCLUSIVE, detail) for name in names)
    return (
        quality.steady_state(repeats, expected.protocol.warmup),
        quality.spread(repeats),
        quality.stopping_rule(repeats, expected.protocol),
    )
