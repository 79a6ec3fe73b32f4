"""The protocol of a measurement as far as its source states it, and how it differs from another one."""

from __future__ import annotations

from attrs import frozen

from dlperf_sdk.spec.protocol import Protocol

AS_PRESCRIBED, DEVIATES, NOT_STATED = "as prescribed", "deviates", "not stated in full"
"""Outcomes of a comparison with the protocol that the source prescribes."""


@frozen
class StatedProtocol:
    """Numbers of steps and repeats of a measurement, as far as they are known.

    None stands for a number that the source of the measurement, such as a publication, does not state.
    """

    warmup: int | None = None
    """Steps before the window."""
    steps: int | None = None
    """Steps in the window."""
    repeats: int | None = None
    """Number of measurements."""

    @classmethod
    def from_protocol(cls, protocol: Protocol) -> StatedProtocol:
        """Return the warm-up steps, measured steps and repeats of `protocol`; none of them is None.

        For an adaptive protocol, `repeats` is the smallest number of repeats that it takes.
        """
        return cls(protocol.warmup, protocol.steps, protocol.repeats)

    @property
    def window(self) -> str:
        """Warm-up and measured steps, such as `20 + 100 steps`; `?` stands for a number that is not stated.

        Empty if neither is stated.
        """
        if self.warmup is None and self.steps is None:
            return ""
        return (
            " + ".join("?" if number is None else str(number) for number in (self.warmup, self.steps))
            + " steps"
        )

    def __str__(self) -> str:
        repeats = "" if self.repeats is None else f"{self.repeats} repeat{'s' * (self.repeats != 1)}"
        return ", ".join(filter(None, (self.window, repeats)))

    @property
    def unstated(self) -> tuple[str, ...]:
        """The names of the numbers that are None, which are not stated; empty if all are stated.

        The names are `warm-up steps`, `measured steps` and `repeats`, in this order.
        """
        return tuple(name for name, number in self._numbers().items() if number is None)

    def differences(self, other: StatedProtocol) -> dict[str, tuple[int, int]]:
        """Return the numbers that this protocol and `other` both state, and that differ.

        Returns:
            Name → (number of this protocol, number of `other`), with the names `warm-up steps`, `measured steps` and
            `repeats`, in this order. Empty if no number differs.
        """
        other_numbers = other._numbers()
        return {
            name: (number, other_number)
            for name, number in self._numbers().items()
            if number is not None
            and (other_number := other_numbers[name]) is not None
            and number != other_number
        }

    def check(self, prescribed: Protocol) -> str:
        """Compare the warm-up steps, measured steps and repeats with those of a prescribed protocol.

        Args:
            prescribed: The protocol that the measurement should have followed. If it is adaptive, its smallest number
                of repeats counts.

        Returns:
            `deviates` if a number that this protocol states differs from the prescribed one. If none does,
            `as prescribed` if this protocol states all numbers, else `not stated in full`.
        """
        if self.differences(StatedProtocol.from_protocol(prescribed)):
            return DEVIATES
        return NOT_STATED if self.unstated else AS_PRESCRIBED

    def _numbers(self) -> dict[str, int | None]:
        return {"warm-up steps": self.warmup, "measured steps": self.steps, "repeats": self.repeats}
