"""Arithmetic of intervals of time: unions, differences and self time. Times have any unit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from attrs import frozen


@frozen
class Interval:
    """A named interval of time on a track. On one track, intervals usually nest, as calls on a thread do."""

    start: float
    """Start of the interval."""
    end: float
    """End of the interval, not before its start."""
    name: str = ""
    """Name of what takes place, such as an operator; several intervals may have the same."""
    track: object = None
    """The thread or stream: any value that can be hashed."""


def union(intervals: Iterable[Interval]) -> list[tuple[float, float]]:
    """Return the (start, end) of disjoint intervals that cover the same times, in ascending order.

    Names and tracks are ignored, and intervals that touch are merged.
    """
    merged: list[tuple[float, float]] = []
    for start, end in sorted((interval.start, interval.end) for interval in intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def length(disjoint: Iterable[tuple[float, float]]) -> float:
    """Return the total length of disjoint intervals, given by (start, end), in the unit of their times; 0 for none."""
    return math.fsum(end - start for start, end in disjoint)


def overlap(first: Sequence[tuple[float, float]], second: Sequence[tuple[float, float]]) -> float:
    """Return the total length of the times that `first` and `second` both cover, in the unit of their times.

    Each argument is a sequence of (start, end), disjoint and in ascending order, as `union` returns it.
    """
    parts, i, j = [], 0, 0
    while i < len(first) and j < len(second):
        parts.append(max(0.0, min(first[i][1], second[j][1]) - max(first[i][0], second[j][0])))
        if first[i][1] <= second[j][1]:
            i += 1
        else:
            j += 1
    return math.fsum(parts)


def self_times(intervals: Iterable[Interval]) -> dict[str, tuple[int, float]]:
    """Return a dict from each name to the number of its intervals and their total self time, in the unit of the times.

    At every moment, a track's time counts for one of its intervals: of those that have not ended, the one that started
    last. So the self time of an interval is its duration without the time of the intervals inside it. The self times of
    a track add up to the length of the union of its intervals.
    """
    tracks: dict[object, list[Interval]] = {}
    for interval in intervals:
        tracks.setdefault(interval.track, []).append(interval)
    counts: dict[str, int] = {}
    parts: dict[str, list[float]] = {}
    for track in tracks.values():
        track.sort(key=lambda interval: (interval.start, -interval.end))
        open_intervals: list[Interval] = []
        clock = -math.inf
        for interval in track:
            clock = _advance(open_intervals, clock, interval.start, parts)
            open_intervals.append(interval)
            counts[interval.name] = counts.get(interval.name, 0) + 1
        _advance(open_intervals, clock, math.inf, parts)
    return {name: (count, math.fsum(parts.get(name, ()))) for name, count in counts.items()}


def _advance(
    open_intervals: list[Interval], clock: float, limit: float, parts: dict[str, list[float]]
) -> float:
    """Distribute the time from `clock` to `limit` to the open intervals, remove those that end, and return `limit`."""
    while open_intervals and clock < limit:
        newest = open_intervals[-1]
        stop = min(newest.end, limit)
        if stop > clock:
            parts.setdefault(newest.name, []).append(stop - clock)
            clock = stop
        if newest.end <= clock:
            open_intervals.pop()
    return limit
