"""Numbers for readers: with as many digits as are significant, in a unit that suits their size."""

from __future__ import annotations

import math
from collections.abc import Sequence

from attrs import frozen

from dlperf_sdk.documents.json_values import significant_decimals

_DECIMAL = (
    (1e15, "P"),
    (1e12, "T"),
    (1e9, "G"),
    (1e6, "M"),
    (1e3, "k"),
    (1.0, ""),
    (1e-3, "m"),
    (1e-6, "µ"),
    (1e-9, "n"),
)
_BINARY = ((2.0**40, "Ti"), (2.0**30, "Gi"), (2.0**20, "Mi"), (2.0**10, "Ki"), (1.0, ""))

# Usual prefixes of a unit. Throughputs are compared across orders of magnitude, so they have none.
_PREFIXES = {
    "B": _BINARY,
    "s": tuple(pair for pair in _DECIMAL if pair[0] <= 1),
    "J": _DECIMAL,
    "W": _DECIMAL,
    "FLOP": tuple(pair for pair in _DECIMAL if pair[0] >= 1),
    "B/s": tuple(pair for pair in _DECIMAL if pair[0] >= 1),
    "FLOP/s": tuple(pair for pair in _DECIMAL if pair[0] >= 1),
}

_COUNT_UNITS = ("steps", "")
_PERCENT_DECIMALS = 4
"""Maximum number of decimals of a percentage: a smaller share is rounding noise."""


@frozen
class Scale:
    """Unit and number of decimals for a value, and for the values that are shown beside it.

    The methods take values in the original unit, and format them in `unit`.
    """

    divisor: float
    """Value of one `unit` in the original unit."""
    unit: str
    """Unit with its prefix."""
    decimals: int
    """Number of decimals."""

    def __call__(self, value: float) -> str:
        """Format a value with the decimals of the scale, without its unit: `1,234.5`."""
        return f"{value / self.divisor:,.{self.decimals}f}"

    def format_alone(self, value: float) -> str:
        """Format a value in the scale's unit, with the decimals that its own size requires; the unit is left out."""
        return f"{value / self.divisor:,.{significant_decimals(abs(value) / self.divisor)}f}"

    def format_interval_alone(self, low: float, high: float) -> str:
        """Format both ends of an interval in the scale's unit, as `low – high`; the unit is left out.

        Each end has the decimals that its own size requires.
        """
        return f"{self.format_alone(low)} – {self.format_alone(high)}"

    def with_unit(self, value: float) -> str:
        """Format a value with the decimals of the scale, and its unit: `1.945 GiB`."""
        return f"{self(value)} {self.unit}".rstrip()

    def interval(self, low: float, high: float) -> str:
        """Format both ends of an interval as `low – high`, with the decimals of the scale, without the unit."""
        return f"{self(low)} – {self(high)}"


def scale(value: float, unit: str) -> Scale:
    """Return the unit and the number of decimals that suit a value, as a `Scale`.

    With these decimals, the value has four significant digits, or three if it is below 1 in the returned unit. A whole
    number has no decimals if `unit` is `steps` or empty. A percentage has at most four decimals.

    Args:
        value: The value in `unit`.
        unit: The unit without a prefix: `s`, `B`, `img/s`, ….
    """
    size = abs(value)
    prefixes = _PREFIXES.get(unit, ((1.0, ""),))
    divisor, prefix = next((pair for pair in prefixes if size >= pair[0]), prefixes[-1])
    if size == 0:
        divisor, prefix = 1.0, ""
    decimals = (
        0
        if unit in _COUNT_UNITS and math.isfinite(size) and size == int(size)
        else significant_decimals(size / divisor)
    )
    return Scale(divisor, prefix + unit, min(decimals, _PERCENT_DECIMALS) if unit == "%" else decimals)


def common_scale(values: Sequence[float], unit: str) -> Scale:
    """Return the scale of several values that are shown together, such as those of a column.

    It has the unit that suits the largest value, and the decimals that the smallest needs, at most four.

    Args:
        values: At least one value in `unit`.
        unit: The unit without a prefix: `s`, `B`, `img/s`, ….

    Raises:
        ValueError: There is no value.
    """
    largest = scale(max(values, key=abs), unit)
    needed = max(significant_decimals(abs(value) / largest.divisor) for value in values)
    return Scale(largest.divisor, largest.unit, min(needed, 4))


def quantity(value: float, unit: str) -> str:
    """Format a value, given in a unit without a prefix, in the unit that suits it: `133.2 img/s`, `1.945 GiB`."""
    return scale(value, unit).with_unit(value)


def format_ends(low: float, high: float, decimals: int = 2) -> tuple[str, str]:
    """Format both ends of an interval with `decimals`, or up to two more if they would be equal: `1.088`, `1.094`.

    Ends that are still equal have `decimals`.
    """
    for digits in range(decimals, decimals + 3):
        ends = f"{low:.{digits}f}", f"{high:.{digits}f}"
        if ends[0] != ends[1]:
            return ends
    return f"{low:.{decimals}f}", f"{high:.{decimals}f}"


def format_estimate(low: float, value: float, high: float) -> tuple[str, str, str]:
    """Format an estimate between the ends of its interval with two decimals: `1.16`, `1.18`, `1.21`.

    All three have one or two more decimals if the estimate would be equal to an end: `1.159`, `1.177`, `1.183`.
    """
    for digits in range(2, 5):
        texts = f"{low:.{digits}f}", f"{value:.{digits}f}", f"{high:.{digits}f}"
        if len(set(texts)) == 3:
            return texts
    return f"{low:.2f}", f"{value:.2f}", f"{high:.2f}"


def duration(seconds: float) -> str:
    """Format a duration in seconds: `< 0.1 s`, `0.9 s`, `12 s`, `3 min 20 s`, `2 h 05 min`."""
    if seconds < 0.05:
        return "< 0.1 s"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    rounded = round(seconds)
    if rounded < 60:
        return f"{rounded} s"
    if rounded < 3600:
        return f"{rounded // 60} min {rounded % 60:02d} s"
    return f"{rounded // 3600} h {rounded % 3600 // 60:02d} min"


def format_count(count: int, noun: str) -> str:
    """Format a count with its noun, which is given in the singular: `1 repeat`, `3 repeats`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def ranges(numbers: Sequence[int]) -> str:
    """Format whole numbers, which are given in ascending order, with consecutive ones joined: `0-3, 7`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)
