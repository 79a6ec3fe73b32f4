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
        value: The value as text.
    """
    return _VALUES.get(fact, {}).get(value, value)


def list_details(observed: Mapping[str, object]) -> str:
    """List what was observed of a data source besides its name, as `queue size 2, samples per replica 8`.

    `observed` is name → value, with the source's name as `source`. The names are sorted. Empty without other names.
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
    """Return a strategy's name in the source with its own name in parentheses: `replicated (all_reduce)`.

    It is the own name alone if `printed_names` (own name → name in the source) does not have it.
    """
    return f"{printed_names[name]} ({name})" if name in printed_names else name


def join_names(names: Iterable[str]) -> str:
    """Join names as `a, b and c`; after six names the others are counted. Empty without names."""
    all_names = list(names)
    if len(all_names) > MOST_NAMES:
        return f"{', '.join(all_names[:MOST_NAMES])} and {len(all_names) - MOST_NAMES} more"
    return " and ".join(part for part in (", ".join(all_names[:-1]), "".join(all_names[-1:])) if part)
