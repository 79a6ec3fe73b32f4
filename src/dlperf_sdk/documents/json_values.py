"""Plain values: what a document may contain, and how values are written, in documents and for readers."""

from __future__ import annotations

import math
import reprlib
import sys
from collections.abc import Sequence
from typing import Any

from dlperf_sdk.errors import DocumentError

DEEPEST = 64
"""Maximum nesting of objects and arrays, far more than any document of dlperf-sdk has."""
LARGEST_FLOAT = sys.float_info.max
"""Bound of the numbers in a document, whole ones included."""
_NON_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def format_value(value: Any) -> str:
    """Return a value as Python writes it, shortened for an error message to at most a hundred characters."""
    short = reprlib.Repr()
    short.maxstring = short.maxother = 80
    short.maxlong = 40
    try:
        text = short.repr(value)
    except (ValueError, RecursionError):
        text = f"a {type(value).__name__}"  # such as an int that is too long to print
    return text if len(text) <= 100 else text[:97] + "..."


def replace_control_characters(text: str) -> str:
    """Return a text with `�` (U+FFFD) for each unprintable character other than newline and tab.

    A text from another person can then not control the terminal that shows it. A character is unprintable if
    `str.isprintable` is false: control and format characters, lone surrogates, and all spaces but the ordinary one.
    """
    if text.isprintable():
        return text
    return "".join(char if char in "\n\t" or char.isprintable() else "�" for char in text)


def significant_decimals(size: float) -> int:
    """Return the number of decimals that show a number with four significant digits, or with three if it is below 1.

    The result is at most 11. It is 0 for a number of at least 1000, for 0, and for a number that is not finite.

    Args:
        size: Absolute value of the number.
    """
    if not math.isfinite(size) or size == 0:
        return 0
    if size >= 1:
        return max(0, 3 - math.floor(math.log10(size)))
    return min(11, 2 - math.floor(math.log10(size)))


def number(value: float | str) -> float:
    """Return a number of a document as a float. Documents write `nan`, `inf` and `-inf` as text, which JSON lacks.

    Raises:
        KeyError: The value is another text.
    """
    return _NON_FINITE[value] if isinstance(value, str) else float(value)


def numbers(values: Sequence[float | str]) -> tuple[float, ...]:
    """Return numbers of a document as a tuple of floats, in order; `nan`, `inf` and `-inf` may be text.

    Raises:
        KeyError: A value is another text.
    """
    return tuple(values) if set(map(type, values)) == {float} else tuple(map(number, values))  # type: ignore[arg-type]


def check_plain(value: Any, source: str) -> None:
    """Check that a value consists of JSON types, and is not nested too deeply.

    Args:
        value: The value.
        source: Name of the value in messages.

    Raises:
        DocumentError: The value has a part of another type, a key that is not text, a number that is not finite or
            too large, or more than `DEEPEST` (64) levels.
    """
    level = [value]
    for _ in range(DEEPEST):
        deeper: list[Any] = []
        for item in level:
            # The most frequent types come first, because thousands of results are read like this.
            kind = type(item)
            if kind is str or item is None or kind is bool:
                continue
            if isinstance(item, dict):
                _check_keys(item, source)
                deeper.extend(item.values())
            elif isinstance(item, list):
                if not _is_plain_list(item):
                    deeper.extend(item)
            elif isinstance(item, float):
                if not math.isfinite(item):
                    raise DocumentError(f"{source} holds {item}, which is not a JSON number.")
            elif isinstance(item, int):
                if not -LARGEST_FLOAT <= item <= LARGEST_FLOAT:
                    raise DocumentError(f"{source} holds a whole number of {item.bit_length()} bits.")
            elif not isinstance(item, str):
                raise DocumentError(
                    f"{source} holds {format_value(item)}, a {type(item).__name__}; write it as text."
                )
        if not deeper:
            return
        level = deeper
    raise DocumentError(f"{source} is nested more than {DEEPEST} deep.")


_TEXT = {str}


def _check_keys(item: dict[Any, Any], source: str) -> None:
    if not set(map(type, item)) <= _TEXT and not all(isinstance(key, str) for key in item):
        raise DocumentError(f"{source} holds {format_value(item)}, with a key that is not text.")


def _is_plain_list(items: list[Any]) -> bool:
    """Return True if a quick test finds only finite floats, or only texts, in the list; most long lists pass."""
    kinds = set(map(type, items))
    if kinds == {float}:
        # If the sum overflows, the items are checked one by one.
        return math.isfinite(sum(items))
    return kinds == _TEXT
