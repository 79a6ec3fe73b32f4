"""A series of numbers as a line of block characters."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from dlperf_sdk.worker.estimate import median

_BLOCKS = "▁▂▃▄▅▆▇█"
_LEAST_SPAN = 0.05
"""Minimum span from the lowest to the highest block, relative to the largest value, so that noise stays flat."""


def sparkline(values: Sequence[float], width: int) -> str:
    """Return a line of block characters, from `▁` to `█`, whose heights show the values; empty without values.

    Args:
        values: Positive numbers.
        width: Maximum number of characters, at least one. If there are more values, each character shows the median of
            several successive ones.
    """
    if not values:
        return ""
    bins = min(width, len(values))
    edges = [round(len(values) * place / bins) for place in range(bins + 1)]
    heights = [median(values[start:end]) for start, end in itertools.pairwise(edges)]
    low, high = min(heights), max(heights)
    span = max(high - low, _LEAST_SPAN * high)
    low = (low + high - span) / 2
    return "".join(_BLOCKS[min(7, int(8 * (height - low) / span))] for height in heights)


def mark_positions(positions: Sequence[int], count: int, width: int) -> str:
    """Return a line to print below a sparkline, with `^` under the characters of the values to mark.

    It has no spaces at its end, and is empty without positions.

    Args:
        positions: Indexes of the values to mark.
        count: Number of values of the sparkline.
        width: The `width` that `sparkline` was given.
    """
    bins = min(width, count)
    edges = [round(count * place / bins) for place in range(bins + 1)] if bins else []
    return "".join(
        "^" if any(start <= position < end for position in positions) else " "
        for start, end in itertools.pairwise(edges)
    ).rstrip()
