"""Checks for the options of models: attrs validators that raise a `SpecError` in a sentence."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from dlperf_sdk.errors import SpecError

Check = Callable[[Any, Any, Any], None]


def whole(least: int, most: int) -> Check:
    """A whole number from `least` to `most`."""

    def check(_: Any, attribute: Any, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise SpecError(
                f"{attribute.name} is {value!r}; it must be a whole number from {least} to {most}."
            )

    return check


def number(*, least: float = 0.0, below: float = math.inf) -> Check:
    """A finite number, `least` or more and less than `below`."""
    limits = f"{least:g} or more" + ("" if below == math.inf else f", and less than {below:g}")

    def check(_: Any, attribute: Any, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < below:
            raise SpecError(f"{attribute.name} is {value!r}; it must be a number, {limits}.")

    return check


def or_none(check: Check) -> Check:
    """What `check` asks for, or None."""

    def checked(instance: Any, attribute: Any, value: Any) -> None:
        if value is not None:
            check(instance, attribute, value)

    return checked
