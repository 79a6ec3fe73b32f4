"""Nodes that compute differently: digests of the final parameters on equal devices, bit by bit.

Weights and batches are canonical, so equal devices that compute alike end each repeat with equal parameters. A case
may still use operations whose order of summation varies. Such a case shows itself by repeats of one node that differ,
and is then not compared, unless most nodes with equal devices do agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from attrs import frozen

EQUAL, DIFFERS, TIED, UNSTABLE, INVALID, INCONCLUSIVE, NOT_APPLICABLE = (
    "equal",
    "differs",
    "tied",
    "unstable",
    "invalid",
    "inconclusive",
    "not-applicable",
)
"""Outcomes of a node's numerics. `TIED`: one of several nodes is wrong, and which one is unknown. `UNSTABLE`: the
node's repeats differ, and those of most others do not. `INVALID`: a validity check of its result failed."""
WRONG = (DIFFERS, TIED, UNSTABLE, INVALID)
"""Outcomes of nodes that compute wrongly, or may."""


@frozen
class Numerics:
    """Numerics of one node, compared with the other nodes."""

    outcome: str
    """Outcome of the node: `equal`, `differs`, `tied`, `unstable`, `invalid`, `inconclusive` or `not-applicable`."""
    detail: str
    """Reason, as a sentence; empty for equal digests."""


@frozen
class Trajectory:
    """Numbers that one repeat of a node computed."""

    digest: str
    """Digest of the parameters after the last step; empty if the trainer gave none."""
    losses: tuple[float, ...]
    """Loss of each step of the first replica, canonical and warm-up steps included."""


def compare_numerics(repeats: Mapping[str, Sequence[Trajectory]]) -> dict[str, Numerics]:
    """Compare the digests of the final parameters of nodes with equal devices.

    The most common digest counts as right.

    Args:
        repeats: Name of a node → its repeats, at least one. All nodes have equal devices and ran the same case.

    Returns:
        Name of each node → its numerics, in the order of `repeats`. If a repeat has no digest, all nodes have the
        outcome `not-applicable`. Otherwise, a single node has the outcome `inconclusive`, and several nodes have
        `not-applicable` if their repeats do not show that the case is deterministic.
    """
    digests = {name: {repeat.digest for repeat in some} for name, some in repeats.items()}
    if any("" in some for some in digests.values()):
        return _all_alike(repeats, NOT_APPLICABLE, "The trainer gives no digest of its parameters.")
    if len(repeats) == 1:
        return _all_alike(repeats, INCONCLUSIVE, "There is no other node with equal devices.")
    stable = {name: next(iter(some)) for name, some in digests.items() if len(some) == 1}
    sizes = Counter(stable.values()).most_common()
    if not sizes or (sizes[0][1] == 1 and not _show_determinism(stable, repeats)):
        return _all_alike(
            repeats,
            NOT_APPLICABLE,
            "The case is not deterministic here: equal repeats do not give equal parameters."
            if len(stable) < len(repeats)
            else "One repeat does not show that the case is deterministic: measure at least two.",
        )
    largest = {digest for digest, size in sizes if size == sizes[0][1]}
    common = next(iter(largest))
    return {
        name: _compare(name, stable, repeats, common if len(largest) == 1 else None, sizes[0][1])
        for name in repeats
    }


def _show_determinism(stable: Mapping[str, str], repeats: Mapping[str, Sequence[Trajectory]]) -> bool:
    """Return True if the own repeats of every node show that its results can be repeated."""
    return len(stable) == len(repeats) and all(len(some) > 1 for some in repeats.values())


def _all_alike(names: Mapping[str, object], outcome: str, detail: str) -> dict[str, Numerics]:
    return {name: Numerics(outcome, detail) for name in names}


def _compare(
    name: str,
    stable: Mapping[str, str],
    repeats: Mapping[str, Sequence[Trajectory]],
    common: str | None,
    size: int,
) -> Numerics:
    """Compare a node with the `size` nodes that share the most common digest; None for a tie of several digests."""
    count = len(repeats)
    if name not in stable:
        if 2 * size > count:
            detail = f"Its repeats differ from each other, and those of {size} of {count} nodes are equal."
            return Numerics(UNSTABLE, detail)
        return Numerics(
            NOT_APPLICABLE, "Its repeats differ from each other, so the case is not deterministic."
        )
    if common is None:
        rivals = ", ".join(other for other, digest in stable.items() if digest != stable[name])
        return Numerics(
            TIED, f"It differs from {rivals}, and no digest is the most common: which is wrong is open."
        )
    if stable[name] == common:
        return Numerics(EQUAL, "")
    reference = next(other for other, digest in stable.items() if digest == common)
    step = _first_difference(repeats[name][0].losses, repeats[reference][0].losses)
    place = "only in the parameters" if step is None else f"from the loss of step {step + 1} on"
    return Numerics(DIFFERS, f"Its final parameters differ from those of {size} of {count} nodes, {place}.")


def _first_difference(losses: Sequence[float], reference: Sequence[float]) -> int | None:
    return next(
        (
            step
            for step, (loss, expected) in enumerate(zip(losses, reference, strict=False))
            if loss != expected
        ),
        None,
    )
