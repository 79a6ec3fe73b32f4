"""Records → numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from record_samples import record, repeat

from dlperf_sdk.results import metrics
from dlperf_sdk.results.records import Repeat, Window

positive = st.floats(0.001, 1e3)


def two(first: float, second: float, samples: int = 100) -> Repeat:
    """Two processes with windows of these lengths."""
    return Repeat(
        0,
        (
            record(0, window=Window(5.0, 5.0 + first), samples=samples),
            record(1, window=Window(7.0, 7.0 + second), samples=samples),
        ),
    )


def test_throughput_is_all_samples_over_the_slowest_window() -> None:
    assert metrics.throughput(two(1.0, 2.0)) == pytest.approx(200 / 2.0)
    assert metrics.window_seconds(two(1.0, 2.0)) == 2.0
    assert metrics.window_samples(two(1.0, 2.0)) == 200


@given(positive, positive)
def test_throughput_is_never_above_the_sum_of_the_rates(first: float, second: float) -> None:
    actual = two(first, second)
    rates = sum(record.samples / record.window.seconds for record in actual.records)
    assert metrics.throughput(actual) <= rates * (1 + 1e-9)


def test_a_step_is_as_slow_as_its_slowest_process() -> None:
    actual = Repeat(0, (record(0, step_times=(0.1, 0.4, 0.1)), record(1, step_times=(0.2, 0.3, 0.1))))
    assert metrics.step_times(actual) == [0.2, 0.4, 0.1]


def test_data_wait_is_that_of_the_process_that_waited_longest() -> None:
    window = Window(0.0, 10.0)
    waits = [(0.5, 0.5), (1.0, 2.0)]
    actual = Repeat(0, tuple(record(i, window=window, data_waits=w) for i, w in enumerate(waits)))
    assert metrics.data_wait_fraction(actual) == pytest.approx(0.3)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60), st.floats(0, 100))
def test_percentile_is_numpys(values: list[float], percent: float) -> None:
    assert metrics.percentile(values, percent) == pytest.approx(np.percentile(values, percent), abs=1e-6)


@pytest.mark.parametrize("count", [1, 5, 6, 7, 30])
def test_a_metric_has_an_interval_from_six_repeats_on(count: int) -> None:
    created = metrics.metric("m", "u", range(count))
    assert (created.low is None) == (count < 6)
    assert created.repeats == tuple(map(float, range(count)))
    assert created.value == (count - 1) / 2
    if created.low is not None:
        assert created.high is not None and created.low <= created.value <= created.high


def test_a_metric_that_one_repeat_lacks_is_absent() -> None:
    assert metrics.measured_metric("m", "u", [1.0, None, 3.0]) == ()
    assert metrics.measured_metric("m", "u", []) == ()
    (created,) = metrics.measured_metric("m", "u", [0.0, 0.0])
    assert created.value == 0.0  # a measured zero is a number


def test_the_median_of_rates_is_not_the_rate_of_medians() -> None:
    """Slow steps count by their time: 95 steps of 0.1 s and 5 of 0.3 s make 9.09 steps per second, not
    9.67."""
    actual = repeat(step_times=(0.1,) * 95 + (0.3,) * 5, samples=100)
    assert metrics.throughput(actual) == pytest.approx(100 / 11.0)
    assert math.isclose(metrics.window_seconds(actual), 11.0)
