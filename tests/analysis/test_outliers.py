"""The test for outliers: published critical values, masked outliers, and the rate of false alarms."""

import random

import pytest

from dlperf_sdk.analysis import outliers
from dlperf_sdk.analysis.outliers import find_outliers


@pytest.mark.parametrize(("count", "critical"), [(54, 3.158), (53, 3.151), (52, 3.143), (50, 3.128)])
def test_critical_values_are_those_of_the_published_example(count, critical):
    """NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.5.17.3, with Rosner's data; digits are cut off there."""
    assert critical <= outliers._critical(count, 0.05) < critical + 1e-3


def test_two_outliers_that_hide_each_other_are_found():
    values = [0.0, 0.1, -0.1, 0.05, -0.05, 0.08, -5.0, -5.2]
    assert set(find_outliers(values, 0.05)) == {6, 7}


def test_few_or_equal_values_have_no_outlier():
    assert find_outliers([], 0.05) == ()
    assert find_outliers([0.0, -9.0], 0.05) == ()
    assert find_outliers([1.0] * 9, 0.05) == ()


@pytest.mark.parametrize("count", [4, 7, 16])
def test_false_alarms_keep_the_level(count):
    source, samples = random.Random(count), 1500
    alarms = sum(
        bool(find_outliers([source.gauss(0, 1) for _ in range(count)], 0.05)) for _ in range(samples)
    )
    assert alarms / samples <= 0.05 + 3 * (0.05 * 0.95 / samples) ** 0.5
