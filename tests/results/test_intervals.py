"""Arithmetic of intervals, compared with counting on a grid of whole numbers."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pytest

from dlperf_sdk.results.intervals import Interval, length, overlap, self_times, union

EXTENT = 60
NAMES = "abc"


def random_intervals(seed: int, *, nested: bool) -> list[Interval]:
    """Return intervals on three tracks with whole numbers as times; some are empty, equal, or touch each other."""
    draw = random.Random(seed)
    if not nested:
        return [
            Interval(start, draw.randint(start, EXTENT), draw.choice(NAMES), draw.randrange(3))
            for start in (draw.randint(0, EXTENT) for _ in range(draw.randint(1, 25)))
        ]
    intervals = []
    for track in range(3):
        left = [(0, EXTENT)]
        while left and len(intervals) < 60:
            low, high = left.pop(draw.randrange(len(left)))
            if high - low < 2:
                continue
            start = draw.randint(low, high - 1)
            end = draw.randint(start + 1, high)
            intervals.append(Interval(start, end, draw.choice(NAMES), track))
            left += [(low, start), (start, end), (end, high)] if end - start < high - low else []
    draw.shuffle(intervals)
    return intervals


def covered(intervals: list[Interval]) -> set[int]:
    """Return the units of time that an interval covers."""
    return {unit for interval in intervals for unit in range(int(interval.start), int(interval.end))}


@pytest.mark.parametrize("seed", range(100))
def test_unions_and_overlaps_are_counts_of_units(seed):
    first, second = random_intervals(seed, nested=False), random_intervals(seed + 1000, nested=False)
    merged = union(first)
    assert all(end < start for (_, end), (start, _) in pairwise(merged))
    assert length(merged) == len(covered(first))
    assert overlap(merged, union(second)) == len(covered(first) & covered(second))
    assert length(union([*first, *second])) == len(covered(first) | covered(second))


@pytest.mark.parametrize("seed", range(100))
@pytest.mark.parametrize("nested", [True, False])
def test_self_times_of_a_track_add_up_to_its_union(seed, nested):
    intervals = random_intervals(seed, nested=nested)
    expected: Counter[str] = Counter()
    for track in range(3):
        members = [interval for interval in intervals if interval.track == track]
        for unit in covered(members):
            running = [interval for interval in members if interval.start <= unit < interval.end]
            # The innermost: the one that started last, and of those the one that ends first.
            newest = max(interval.start for interval in running)
            ends = [interval for interval in running if interval.start == newest]
            innermost = min(interval.end for interval in ends)
            names = {interval.name for interval in ends if interval.end == innermost}
            expected["".join(sorted(names))] += 1
    times = self_times(intervals)
    unions = sum(length(union([i for i in intervals if i.track == track])) for track in range(3))
    assert sum(seconds for _, seconds in times.values()) == unions
    assert {name: count for name, (count, _) in times.items()} == Counter(i.name for i in intervals)
    for name in NAMES:  # equal intervals on one track share their time in either order
        certain = expected[name]
        shared = sum(units for names, units in expected.items() if name in names)
        assert certain <= times.get(name, (0, 0.0))[1] <= shared


def test_nested_calls_count_without_what_they_call():
    calls = [
        Interval(0, 10, "outer"),
        Interval(1, 4, "inner"),
        Interval(2, 3, "leaf"),
        Interval(5, 7, "inner"),
    ]
    assert self_times(calls) == {"outer": (1, 5.0), "inner": (2, 4.0), "leaf": (1, 1.0)}


def test_nothing_takes_no_time():
    assert union([]) == [] and length([]) == 0 and overlap([], [(0, 1)]) == 0 and self_times([]) == {}
