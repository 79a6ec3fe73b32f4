"""Protocols: numbers of steps and repeats of a measurement."""

from __future__ import annotations

import attrs
from attrs import frozen

from dlperf_sdk.errors import SpecError
from dlperf_sdk.spec.fields import check_fraction, check_name, optional, whole_number

# Far above any real case: the bounds keep a mistyped number from filling a disk. The schemas have them, too.
MOST_STEPS = 100_000
MOST_REPEATS = 100_000


@frozen
class Protocol:
    """Numbers of steps and repeats of a measurement. Each repeat is made by new processes.

    Raises:
        SpecError: A field has an impossible value, or `max_repeats` is below `repeats`.
    """

    name: str = attrs.field(validator=check_name)
    """Name of the protocol."""
    warmup: int = attrs.field(validator=whole_number(0, MOST_STEPS))
    """Steps before the window."""
    steps: int = attrs.field(validator=whole_number(1, MOST_STEPS))
    """Steps in the window."""
    repeats: int = attrs.field(validator=whole_number(1, MOST_REPEATS))
    """Number of repeats; with a `target`, the number of first repeats from which the total is planned."""
    max_repeats: int = attrs.field(validator=whole_number(1, MOST_REPEATS))
    """Maximum number of repeats; equal to `repeats` without a `target`."""
    target: float | None = attrs.field(default=None, validator=optional(check_fraction))
    """Take the number of repeats for which the median's interval should be ± this fraction of the median, planned
    from the first repeats; null: a fixed number of repeats."""
    canonical_steps: int = attrs.field(default=5, validator=whole_number(0, MOST_STEPS))
    """Steps on the fixed canonical batch, before the warm-up. They trigger compilation, and show that the loss
    falls."""

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
"""Named protocols. `dlperf-v1` is DLPerf's rule: skip 20 steps, measure 100, repeat 7 times, take the median."""
