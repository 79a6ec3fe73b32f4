"""The model of how a step's time grows with each doubling of devices, learned from series that were measured."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import product

from attrs import frozen

from dlperf_sdk.errors import AnalysisError
from dlperf_sdk.worker.estimate import median

CONFIDENCE = 0.9
"""Confidence of the intervals of predictions."""

MIN_EXAMPLES = 19
"""Minimum number of examples for a bound that one of twenty exceeds."""


@frozen
class Growth:
    """Model of the growth of the step time with each doubling, learned from other series."""

    base: float
    """Growth of the natural logarithm of the step time with each doubling, independent of what was measured before."""
    persistence: float
    """Fraction of the last measured growth that continues. Both are 0 if no further growth is assumed."""
    faster: float
    """Error towards faster steps that one of twenty examples exceeds, in units of `estimate_uncertainty`."""
    slower: float
    """Error towards slower steps that one of twenty examples exceeds, in units of `estimate_uncertainty`."""
    examples: int
    """Number of examples that the model was learned from."""

    def next(self, measured: float) -> float:
        """Return the growth of the natural logarithm of the step time with the next doubling of nodes or devices.

        Args:
            measured: The growth per doubling between the two largest measured topologies; a negative one counts as 0.
        """
        return self.base + self.persistence * max(measured, 0.0)


@frozen
class Example:
    """Three topologies of one series, by their numbers of units: nodes, or devices of one node."""

    release: str
    """Text that identifies the release of the series: framework, its version, and implementation."""
    last: int
    """Second number of units."""
    target: int
    """Third and largest number of units."""
    measured: float
    """Growth of the logarithm of the step time per doubling, from the first number of units to `last`."""
    actual: float
    """The same growth per doubling from `last` to `target`."""

    @property
    def doublings(self) -> float:
        """Number of doublings from the number of units `last` to the number `target`; not always a whole number."""
        return math.log2(self.target / self.last)


@lru_cache(maxsize=32)
def learn(examples: tuple[Example, ...]) -> Growth:
    """Fit a model of the growth of the step time by least absolute errors, or assume no further growth.

    Each release is predicted by a model that is fitted to the other releases. No further growth is assumed if that
    assumption predicts the releases better. The width of the interval comes from the errors of these predictions.

    Args:
        examples: The examples to learn from, of any releases.

    Returns:
        The model, with the errors that its intervals need; the same object for equal examples.

    Raises:
        AnalysisError: There are fewer than `MIN_EXAMPLES` (19) examples.
    """
    if len(examples) < MIN_EXAMPLES:
        raise AnalysisError(
            f"Only {len(examples)} series of the reference go over two numbers of nodes, or of devices, to a larger "
            f"one; at least {MIN_EXAMPLES} are needed to learn from."
        )
    fits = {
        release: _fit([example for example in examples if example.release != release])
        for release in {example.release for example in examples}
    }
    held_out = [(example, _error(example, *fits[example.release])) for example in examples]
    plain = [(example, example.actual) for example in examples]
    fit = _fit(examples)
    if not _is_no_worse(held_out, plain):
        fit, held_out = (0.0, 0.0), plain
    scaled = sorted(error / estimate_uncertainty(example.measured) for example, error in held_out)
    # On each side, the ⌈(n + 1) × 95 %⌉-th smallest error.
    rank = min(len(scaled), math.ceil((len(scaled) + 1) * (1 + CONFIDENCE) / 2))
    return Growth(*fit, max(0.0, -scaled[-rank]), max(0.0, scaled[rank - 1]), len(examples))


_GRID = tuple((base / 200, share / 10) for base, share in product(range(13), range(11)))


def _fit(examples: Sequence[Example]) -> tuple[float, float]:
    """Return the base and the persistence with the least absolute errors."""
    points = [(max(e.measured, 0.0), e.actual, e.doublings) for e in examples]
    return min(_GRID, key=lambda fit: sum(abs(fit[0] + fit[1] * x - y) * n for x, y, n in points))


def _error(example: Example, base: float, persistence: float) -> float:
    """Return the actual growth less the predicted one."""
    return example.actual - base - persistence * max(example.measured, 0.0)


def _is_no_worse(
    errors: Sequence[tuple[Example, float]], other_errors: Sequence[tuple[Example, float]]
) -> bool:
    """Return True if errors are no larger in the median, and at the 90th percentile."""
    ordered, other_ordered = (
        sorted(abs(error) * example.doublings for example, error in e) for e in (errors, other_errors)
    )
    return median(ordered) <= median(other_ordered) and ninetieth_percentile(ordered) <= ninetieth_percentile(
        other_ordered
    )


def ninetieth_percentile(values: Iterable[float]) -> float:
    """Return the 90th percentile: the smallest of the values that at least 90 % of the values do not exceed.

    Raises:
        IndexError: There are no values.
    """
    ordered = sorted(values)
    return ordered[math.ceil(0.9 * len(ordered)) - 1]


def estimate_uncertainty(measured: float) -> float:
    """Return the scale of the error of a predicted growth: 0.01 plus 0.3 times the last measured growth.

    Growth is that of the natural logarithm of the step time per doubling. The scale increases with the measured
    growth, because that growth may continue or end. A negative growth counts as 0.

    Args:
        measured: The last measured growth: that between the two largest measured topologies.
    """
    return 0.01 + 0.3 * max(measured, 0.0)
