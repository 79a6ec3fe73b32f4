"""The order of attempts: determined by a seed, so that it is known in advance and stays the same after a resume."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence


def order_round(ids: Sequence[str], seed: int, number: int, adjacent: int = 1) -> list[str]:
    """Return the ids of all cases in the random order in which one round takes a repeat of each.

    Equal arguments give the same order.

    Args:
        ids: Ids of all cases, in the campaign's order.
        seed: Seed of the random orders of all rounds.
        number: Number of the round, counted from 1.
        adjacent: Size of the groups of consecutive `ids` that stay together; the last group may be smaller. The groups
            are shuffled, and so are the cases within each group.
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
    """Return the id of the case of which a repeat is taken next.

    With interleaving, round N takes repeat N of every case, in the order that `order_round` returns for N. Only the
    cases with the fewest finished repeats are candidates: if these have N - 1 repeats, the first of them in the order
    of round N is taken. Without interleaving, each case is concluded before the next starts, in the order of round 1.

    Args:
        ids: Ids of all cases, in the campaign's order.
        finished: Id of each case that is not concluded → number of its finished repeats.
        seed: Seed of the random orders of all rounds. Equal seeds give equal orders.
        interleave: True to take one repeat of every case before the next repeat of any.
        adjacent: Size of the groups of consecutive `ids` that stay together in each round; 1: no groups.

    Raises:
        ValueError, StopIteration: `finished` is empty; the former with interleaving, the latter without.
    """
    if not interleave:
        return next(id for id in order_round(ids, seed, 1, adjacent) if id in finished)
    minimum = min(finished.values())
    return next(id for id in order_round(ids, seed, minimum + 1, adjacent) if finished.get(id) == minimum)
