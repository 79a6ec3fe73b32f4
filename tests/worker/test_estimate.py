"""The estimators that agent and controller share."""

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlperf_sdk.spec.protocol import MOST_REPEATS
from dlperf_sdk.worker import estimate

numbers = st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=40)


def coverage(n: int, k: int) -> Fraction:
    """The exact probability that the k-th smallest and k-th largest of n enclose the median."""
    return 1 - 2 * Fraction(sum(math.comb(n, i) for i in range(k)), 2**n)


@pytest.mark.parametrize("n", range(1, 61))
@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_the_interval_takes_the_innermost_pair_that_reaches_the_confidence(n: int, confidence: float) -> None:
    values = [float(value) for value in range(1, n + 1)]
    good = [k for k in range(1, n // 2 + 1) if coverage(n, k) >= confidence]
    interval = estimate.median_interval(values, confidence)
    if good:
        assert interval == (float(good[-1]), float(n + 1 - good[-1]))
    else:
        assert interval is None


def test_the_interval_of_many_values_is_the_exact_one() -> None:
    """Up to 1000 values each number of them, and beyond what a float has the probabilities of."""
    for n in (*range(1, 1001), 1074, 1075, 2000, 5001):
        values, tail, term, low = [float(value) for value in range(1, n + 1)], 0, 1, 0
        while 40 * (tail + term) <= 2**n:  # the tail is at most 2.5 %, in integers
            tail, term, low = tail + term, term * (n - low) // (low + 1), low + 1
        assert estimate.median_interval(values) == ((low, n + 1 - low) if low else None), n


def test_the_interval_narrows_as_the_root_of_the_number_of_values() -> None:
    """The normal approximation's ranks, 1.96 standard deviations from the middle, at the most repeats there may be."""
    low, high = estimate.median_interval(range(MOST_REPEATS)) or (0, 0)
    assert high - low == pytest.approx(1.96 * math.sqrt(MOST_REPEATS), rel=0.005)


def test_the_textbook_values() -> None:
    """95 % intervals of the median as tables print them: ranks 1 and 6 of 6, 2 and 9 of 10, 6 and 15 of
    20."""
    for n, low, high in [(6, 1, 6), (7, 1, 7), (10, 2, 9), (20, 6, 15), (30, 10, 21)]:
        assert estimate.median_interval([float(v) for v in range(1, n + 1)]) == (low, high)
    assert estimate.median_interval([1.0] * 5) is None


def test_the_interval_covers_the_median_of_a_skewed_distribution() -> None:
    source, covered, runs = random.Random(1), 0, 2000
    for _ in range(runs):
        low, high = estimate.median_interval([source.expovariate(1.0) for _ in range(7)]) or (0.0, 0.0)
        covered += low <= math.log(2) <= high
    # 98.4 % is what seven values give; four standard errors are 1.1 %.
    assert covered / runs == pytest.approx(float(coverage(7, 1)), abs=0.012)


@given(st.lists(st.floats(1e-3, 1e6), min_size=2, max_size=40))
def test_the_standard_deviation_is_the_mean_distance_of_all_pairs(values: list[float]) -> None:
    distances = [abs(a - b) for a, b in itertools.combinations(values, 2)]
    mean_distance = math.fsum(distances) / len(distances)
    expected = mean_distance * math.sqrt(math.pi) / 2
    assert estimate.standard_deviation(values) == pytest.approx(expected, rel=1e-9, abs=1e-9 * max(values))


@pytest.mark.parametrize("count", [2, 3, 7, 12])
def test_the_standard_deviation_is_unbiased_for_normal_values(count: int) -> None:
    source = random.Random(2)
    estimates = [
        estimate.standard_deviation([source.gauss(100, 3) for _ in range(count)]) for _ in range(4000)
    ]
    assert math.fsum(estimates) / len(estimates) == pytest.approx(
        3, rel=0.04
    )  # four standard errors at two values


@given(numbers)
def test_the_median_splits_the_values(values: list[float]) -> None:
    middle = estimate.median(values)
    assert 2 * sum(value < middle for value in values) <= len(values)
    assert 2 * sum(value > middle for value in values) <= len(values)


@given(numbers, st.randoms())
def test_order_does_not_matter(values: list[float], source: random.Random) -> None:
    shuffled = values[:]
    source.shuffle(shuffled)
    assert estimate.median(values) == estimate.median(shuffled)
    assert estimate.median_interval(values) == estimate.median_interval(shuffled)


@pytest.mark.parametrize(
    ("values", "published"),
    [
        # DLPerf, PyTorch/resnet50v1.5 (4 nodes × 8 devices, fp32, batch size 128): ten repeats
        ([8853.15, 8468.23, 8648.47, 8781.78, 9046.34, 8973.6, 8515.95, 8654.31, 8940.3, 8851.62], 8816.7),
        # DLPerf, MxNet/Classification/RN50v1.5: seven repeats
        ([11434.12, 11331.93, 11429.36, 11305.35, 11283.49, 11313.33, 11461.68], 11331.93),
        # DLPerf, TensorFlow/Classification/ConvNets/resnet50v1.5: six repeats
        ([9403.78, 9574.57, 9551.9, 9477.39, 9342.6, 9631.24], 9514.645),
    ],
)
def test_published_medians(values: list[float], published: float) -> None:
    """The medians of published repeats come out as they were published."""
    assert estimate.median(values) == pytest.approx(published, abs=0.006)
