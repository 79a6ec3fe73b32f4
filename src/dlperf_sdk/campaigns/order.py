"""The order of attempts: determined by a seed, so that it is known in advance and stays the same after a resume."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence


def order_round(ids: Sequence[str], seed: int, number: int, adjacent: int = 1) -> list[str]:
    """Return all cases in the order of one round: a permutation that depends only on the arguments.

    Args:
        ids: Ids of all cases, in the campaign's order.
        seed: The campaign's seed.
        number: Number of the round, counted from 1.
        adjacent: Size of the groups of consecutive cases that stay together. The groups are shuffled, and so are
            the cases within each group.
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
    """Return the id of the case whose repeat is taken next.

    With interleaving, it is the first case with the fewest finished repeats, in the order of the round that takes
    its next repeat. Without interleaving, it is the first case that is not concluded, in the order of round 1.

    Args:
        ids: Ids of all cases, in the campaign's order.
        finished: Id → number of finished repeats, of each case that is not concluded; at least one case.
        seed: The campaign's seed.
        interleave: True to take one repeat of every case before the next repeat of any.
        adjacent: Size of the groups of consecutive cases that stay together in a round.
    """
    if not interleave:
        return next(id for id in order_round(ids, seed, 1, adjacent) if id in finished)
    minimum = min(finished.values())
    return next(id for id in order_round(ids, seed, minimum + 1, adjacent) if finished.get(id) == minimum)
