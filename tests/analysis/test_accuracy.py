"""The quality of predictions on releases that were held out, and the goal of point forecasts."""

import random

import attrs
import pytest

from dlperf_sdk.analysis.accuracy import Accuracy, validate
from dlperf_sdk.analysis.growth import Example


def examples(releases, noise):
    chance = random.Random(1)
    return tuple(
        Example(str(release), 2, 4, 0.1, max(0.0, chance.gauss(0.05, noise)))
        for release in range(releases)
        for _ in range(4)
    )


def test_small_errors_meet_the_goal_and_large_ones_do_not():
    precise, noisy = validate(examples(12, 0.005)), validate(examples(12, 0.2))
    assert precise.meets_goal and precise.ninetieth_error < 0.02 and precise.large == 0
    assert not noisy.meets_goal and noisy.ninetieth_error > 0.08
    assert noisy.large > noisy.large_covered


@pytest.mark.parametrize("releases", [0, 1, 5])
def test_too_few_other_releases_validate_nothing(releases):
    """Five releases of four series have 16 without each of them, which is fewer than 19."""
    assert validate(examples(releases, 0.005)) is None
    assert validate(examples(6, 0.005)) is not None


def test_the_goal_is_four_percent_in_the_median_and_eight_at_the_ninetieth_percentile():
    at_goal = Accuracy(0.04, 0.08, 0.9, 0, 0)
    assert at_goal.meets_goal
    assert not attrs.evolve(at_goal, median_error=0.041).meets_goal
    assert not attrs.evolve(at_goal, ninetieth_error=0.081).meets_goal


def test_outcomes_are_counted_by_their_absolute_errors():
    outcomes = [(-0.2, False), (0.2, True), *((0.01, True),) * 8]
    assert Accuracy.from_outcomes(outcomes) == Accuracy(0.01, 0.2, 0.9, 2, 1)
