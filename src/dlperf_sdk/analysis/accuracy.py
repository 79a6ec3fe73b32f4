"""Errors of predictions on releases that were held out, and the goal that they must meet for a point forecast."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from attrs import frozen

from dlperf_sdk.analysis.growth import (
    MIN_EXAMPLES,
    Example,
    Growth,
    estimate_uncertainty,
    learn,
    ninetieth_percentile,
)
from dlperf_sdk.worker.estimate import median

MAX_MEDIAN_ERROR = 0.04
"""Goal: maximum median error."""
MAX_NINETIETH_ERROR = 0.08
"""Goal: maximum 90th percentile of the errors."""
LARGE_ERROR = 2 * MAX_NINETIETH_ERROR
"""Error above which a prediction counts as far off."""


@frozen
class Accuracy:
    """Quality of predictions of published series, each by a model that was learned from other releases of frameworks.

    The predictions have the same depth, such as from two to four nodes. Errors are absolute values of relative errors
    of the throughput.
    """

    median_error: float
    """Median error."""
    ninetieth_error: float
    """The 90th percentile of the errors."""
    covered: float
    """Share of the intervals that contain the published throughput, from 0 to 1."""
    large: int
    """Number of errors above `LARGE_ERROR`."""
    large_covered: int
    """Number of these predictions whose interval contains the published throughput."""

    @classmethod
    def from_outcomes(cls, outcomes: Sequence[tuple[float, bool]]) -> Accuracy:
        """Return the quality of predictions.

        Args:
            outcomes: A pair per prediction: the relative error of the predicted throughput, as a fraction; and True if
                the prediction's interval contains the published throughput.

        Raises:
            ZeroDivisionError: There are no predictions.
        """
        errors = sorted(abs(error) for error, _ in outcomes)
        large = [is_covered for error, is_covered in outcomes if abs(error) > LARGE_ERROR]
        share = sum(is_covered for _, is_covered in outcomes) / len(outcomes)
        return cls(median(errors), ninetieth_percentile(errors), share, len(large), sum(large))

    @property
    def meets_goal(self) -> bool:
        """True if the errors allow a point forecast: at most 4 % in the median and 8 % at the 90th percentile."""
        return self.median_error <= MAX_MEDIAN_ERROR and self.ninetieth_error <= MAX_NINETIETH_ERROR


@lru_cache(maxsize=32)
def validate(examples: tuple[Example, ...]) -> Accuracy | None:
    """Return the quality of predictions, each made with a model that is learned from the series of other releases.

    Args:
        examples: Examples of published series. All have the same depth, that is, equal values of `Example.last` and
            equal values of `Example.target`.

    Returns:
        The quality over all examples, the same object for equal examples. None if there are no examples, or if the
        model for some release would be learned from fewer than `MIN_EXAMPLES` (19) examples.
    """
    outcomes = []
    for release in sorted({example.release for example in examples}):
        others = tuple(example for example in examples if example.release != release)
        if len(others) < MIN_EXAMPLES:
            return None
        model = learn(others)
        outcomes += [_outcome(model, example) for example in examples if example.release == release]
    return Accuracy.from_outcomes(outcomes) if outcomes else None


def _outcome(model: Growth, example: Example) -> tuple[float, bool]:
    """Return the error of a prediction, and True if its interval contains the throughput."""
    shift = (model.next(example.measured) - example.actual) * example.doublings
    width = estimate_uncertainty(example.measured) * example.doublings
    return math.expm1(-shift), -model.slower * width <= shift <= model.faster * width
