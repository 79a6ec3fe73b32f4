"""Change points: where levels begin, what is no change, and how often there is a false alarm."""

import itertools
import random

import pytest

from dlperf_sdk.analysis.change_points import MIN_SEGMENT, MIN_VALUES, find_change_points


def steps(levels, runs, noise=0.005, seed=1):
    source = random.Random(seed)
    return [level * source.gauss(1, noise) for level in levels for _ in range(runs)]


def exhaustive(values, penalty):
    """The cheapest segmentation of all, with the Kruskal-Wallis statistic computed from its definition."""
    count = len(values)
    order = sorted(values)
    ranks = [
        sum(order.index(value) + place for place in range(order.count(value))) / order.count(value)
        for value in values
    ]
    mean = sum(ranks) / count
    spread = sum((rank - mean) ** 2 for rank in ranks)

    def cost(starts):
        edges = [0, *starts, count]
        gain = sum(
            (end - start) * (sum(ranks[start:end]) / (end - start) - mean) ** 2
            for start, end in itertools.pairwise(edges)
        )
        return penalty * len(starts) - (count - 1) * gain / spread

    candidates = [
        starts
        for number in range(count // MIN_SEGMENT)
        for starts in itertools.combinations(range(1, count), number)
        if all(end - start >= MIN_SEGMENT for start, end in itertools.pairwise([0, *starts, count]))
    ]
    return min(candidates, key=cost)


@pytest.mark.parametrize("seed", range(8))
def test_the_search_is_exact(seed):
    source = random.Random(seed)
    values = [float(source.randint(0, 6)) for _ in range(13)]
    assert find_change_points(values, penalty=1.0) == exhaustive(values, 1.0)


@pytest.mark.parametrize("levels", [(1.0, 0.97), (1.0, 0.95, 1.0), (1.0, 1.02, 0.98, 1.05)])
def test_levels_are_separated_where_they_begin(levels):
    assert find_change_points(steps(levels, 25)) == tuple(25 * number for number in range(1, len(levels)))


@pytest.mark.parametrize(("count", "has_change"), [(MIN_VALUES - 1, False), (MIN_VALUES, True)])
def test_different_values_show_a_change_from_the_minimum_number_on(count, has_change):
    """The largest change of all: every later value is below every earlier one, at any split."""
    found = [
        find_change_points(
            [100.0 + run for run in range(split)] + [float(run) for run in range(count - split)]
        )
        for split in range(MIN_SEGMENT, count - MIN_SEGMENT + 1)
    ]
    assert any(found) == has_change


def test_a_change_of_three_runs_shows_and_one_of_two_does_not():
    before = steps([1.0], 30)
    assert find_change_points([*before, 0.9, 0.89, 0.91]) == (30,)
    assert find_change_points([*before, 0.9, 0.89]) == ()


@pytest.mark.parametrize("values", [(), (1.0,), (1.0, 2.0, 3.0, 4.0, 5.0), (7.0,) * 50])
def test_few_or_equal_values_have_no_change(values):
    assert find_change_points(values) == ()


def test_outliers_neither_cause_nor_hide_a_change():
    values = steps([1.0, 0.95], 25)
    values[10], values[11], values[40] = 0.1, 5.0, 30.0
    assert find_change_points(values) == (25,)


def test_only_the_order_of_values_counts():
    values = steps([1.0, 0.98, 1.01], 20)
    assert find_change_points([value**7 for value in values]) == find_change_points(values)


def test_false_alarms_are_as_rare_as_stated():
    source = random.Random(5)
    alarms = sum(bool(find_change_points([source.random() for _ in range(30)])) for _ in range(400))
    assert alarms <= 32  # 5 % of 400 is 20; more than 32 have a probability of 0.3 %
