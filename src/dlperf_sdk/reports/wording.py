"""Names and values of facts in words, and lists of names in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

MOST_NAMES = 6
"""Maximum number of names that a sentence lists."""


_VALUES = {
    "clip_norm": {"0.0": "no clipping"},
    "estimator": {
        "elapsed": "elapsed time",
        "mean-of-rates": "mean of rates",
        "sum-of-step-times": "summed step times",
    },
}
"""Fact → its value as text → that value in words."""


def format_value(fact: str, value: str) -> str:
    """Return a value of a fact in words: `no clipping` for a `clip_norm` of 0.0. Most values are returned unchanged.

    Args:
        fact: Name of the fact.
        value: The value as text, such as `0.0`.
    """
    return _VALUES.get(fact, {}).get(value, value)


def list_details(observed: Mapping[str, object]) -> str:
    """Return the observed details of a data source as `queue size 2, samples per replica 8`; empty without any.

    Args:
        observed: Name → value, including the name of the data source as `source`, which is left out. The details are
            sorted by name.
    """
    words = {True: "yes", False: "no"}
    return ", ".join(
        f"{format_name(name)} {words[value] if isinstance(value, bool) else value}"
        for name, value in sorted(observed.items())
        if name != "source"
    )


def format_name(fact: str) -> str:
    """Return the name of a fact in words: `batch size` for `batch_size`."""
    return fact.replace("_", " ")


def describe_strategy(name: str, printed_names: Mapping[str, str]) -> str:
    """Return a strategy's name in a published source, then that in dlperf-sdk: `replicated (all_reduce)`.

    If the source has no name for the strategy, the text is the name in dlperf-sdk alone.

    Args:
        name: Name of the strategy in dlperf-sdk.
        printed_names: Name of a strategy in dlperf-sdk → the name that the source has for it.
    """
    return f"{printed_names[name]} ({name})" if name in printed_names else name


def join_names(names: Iterable[str]) -> str:
    """Join names as `a, b and c`; names beyond the sixth are counted, as in `a, b, c, d, e, f and 3 more`.

    The text is empty without names.
    """
    all_names = list(names)
    if len(all_names) > MOST_NAMES:
        return f"{', '.join(all_names[:MOST_NAMES])} and {len(all_names) - MOST_NAMES} more"
    return " and ".join(part for part in (", ".join(all_names[:-1]), "".join(all_names[-1:])) if part)
