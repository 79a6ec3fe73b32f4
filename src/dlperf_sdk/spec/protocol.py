"""Protocols: how a case is measured, in steps and in repeats."""

from __future__ import annotations

import attrs
from attrs import frozen

from dlperf_sdk.errors import SpecError
from dlperf_sdk.spec.fields import check_fraction, check_name, optional, whole_number

# No case comes near: they keep a mistyped number from becoming a full disk. The schemas state the same.
MOST_STEPS = 100_000
MOST_REPEATS = 100_000


@frozen
class Protocol:
    """Rules of a measurement: steps, and repeats, each of which is made of new processes."""

    name: str = attrs.field(validator=check_name)
    """Its name."""
    warmup: int = attrs.field(validator=whole_number(0, MOST_STEPS))
    """Steps before the window."""
    steps: int = attrs.field(validator=whole_number(1, MOST_STEPS))
    """Steps in the window."""
    repeats: int = attrs.field(validator=whole_number(1, MOST_REPEATS))
    """Repeats; with a `target`, the first ones, from which the others are planned."""
    max_repeats: int = attrs.field(validator=whole_number(1, MOST_REPEATS))
    """The most repeats; equal to `repeats` where there is no `target`."""
    target: float | None = attrs.field(default=None, validator=optional(check_fraction))
    """Take as many repeats as the first ones show to be needed for an interval of ± this fraction of the median."""
    canonical_steps: int = attrs.field(default=5, validator=whole_number(0, MOST_STEPS))
    """Steps on the canonical fixed batch, before the warm-up: they compile, and show that the loss falls."""

    def __attrs_post_init__(self) -> None:
        if self.max_repeats < self.repeats:
            raise SpecError(
                f"max_repeats is {self.max_repeats}, which is below repeats, {self.repeats}, the fewest that the "
                f"protocol {self.name} takes: raise the one, or lower the other."
            )


PROTOCOLS: dict[str, Protocol] = {
    protocol.name: protocol
    for protocol in (
        Protocol("dlperf-v1", warmup=20, steps=100, repeats=7, max_repeats=7),
        Protocol("quick", warmup=5, steps=20, repeats=3, max_repeats=3),
        Protocol("adaptive", warmup=20, steps=100, repeats=6, max_repeats=30, target=0.01),
    )
}
"""The named protocols. `dlperf-v1` is DLPerf's own rule: skip 20 steps, measure 100, repeat 7 times,
take the median."""
