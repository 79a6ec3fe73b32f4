"""In what order attempts are taken: seeded, so that it can be told beforehand and goes on the same after a resume."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence


def order_round(ids: Sequence[str], seed: int, number: int, adjacent: int = 1) -> list[str]:
    """Return all cases in the order of one round: a permutation that depends on the seed and the round alone.

    Each `adjacent` consecutive cases stay together: their groups are shuffled, and each group in itself.
    """
    source = random.Random(f"dlperf-campaign {seed} {number}")  # noqa: S311 - an order, no secret
    groups = [list(ids[first : first + adjacent]) for first in range(0, len(ids), adjacent)]
    source.shuffle(groups)
    for group in groups:
        source.shuffle(group)
    return [id for group in groups for id in group]


def choose_next_case(
    ids: Sequence[str], finished: Mapping[str, int], seed: int, interleave: bool, adjacent: int = 1
) -> str:
    """Return the next case: of those with the fewest finished repeats, the first in that round's order.

    `finished` holds the repeats of the cases that are not concluded yet; `ids` are all cases. Without interleaving,
    return the first case of the first round's order that is not concluded. `adjacent` is as in `order_round`.
    """
    if not interleave:
        return next(id for id in order_round(ids, seed, 1, adjacent) if id in finished)
    minimum = min(finished.values())
    return next(id for id in order_round(ids, seed, minimum + 1, adjacent) if finished.get(id) == minimum)
