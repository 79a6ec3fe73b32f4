"""In what order attempts are taken: seeded, so that it can be told beforehand and goes on the same after a resume."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence


def in_round(ids: Sequence[str], seed: int, number: int) -> list[str]:
    """Return all cases in the order of one round: a permutation that depends on the seed and the round alone."""
    shuffled = list(ids)
    random.Random(f"dlperf-campaign {seed} {number}").shuffle(shuffled)  # noqa: S311 - an order, no secret
    return shuffled


def next_case(ids: Sequence[str], finished: Mapping[str, int], seed: int, interleave: bool) -> str:
    """Return the next case: of those with the fewest finished repeats, the first in that round's order.

    `finished` holds the repeats of the cases that are not concluded yet; `ids` are all cases. Without interleaving,
    return the first case of the first round's order that is not concluded.
    """
    if not interleave:
        return next(id for id in in_round(ids, seed, 1) if id in finished)
    fewest = min(finished.values())
    return next(id for id in in_round(ids, seed, fewest + 1) if finished.get(id) == fewest)
