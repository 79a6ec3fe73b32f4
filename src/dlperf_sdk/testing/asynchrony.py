"""Time: `step` enqueues and returns, `synchronize` waits for everything, and nothing moves afterwards."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from dlperf_sdk.testing.conformance import advice
from dlperf_sdk.testing.training import Training

LEAST = 0.2
"""Of the time of some steps, the part that must be left for `synchronize` where `step` does not wait."""
MOST = 0.2
"""The most of it that may be left for reading the losses, once `synchronize` has returned."""


class Asynchrony(Training):
    """What can only be seen where the device works while the host goes on: clocks `event` and `lagged`."""

    def test_nothing_changes_after_synchronize(self, model: str) -> None:
        """The parameters are the same when `synchronize` returns, and a while later."""
        assert self._answer(model)["settled"], advice(
            "The parameters changed after `synchronize` had returned.",
            "the window ends with `synchronize`: work that goes on behind it is not measured",
            "wait in `synchronize` for all that `step` has enqueued, the optimizer's update included, on every device",
        )

    def test_step_does_not_synchronise(self, model: str) -> None:
        """Some steps are enqueued sooner than they are done."""
        for times in self._times(model):
            if times["synchronize"] >= LEAST * _whole(times):
                return
        pytest.fail(
            advice(
                f"{self._said(model)}: when `step` returned, hardly anything was left to wait for.",
                "a device that waits for the host between steps is slower than it could be, and the number is not the "
                "framework's",
                "wait for nothing in `step`: no reading of the loss, no synchronisation. If steps are simply too short "
                "to tell, raise `batch_size`; if the framework cannot do otherwise, declare the clock 'blocking'",
            )
        )

    def test_synchronize_waits(self, model: str) -> None:
        """When it returns, the losses can be read at once."""
        for times in self._times(model):
            if times["read"] <= MOST * _whole(times):
                return
        pytest.fail(
            advice(
                f"{self._said(model)}: `synchronize` returned before the steps were done.",
                "the window ends with `synchronize`: without it steps are counted that have only been enqueued",
                "wait in `synchronize` for the device (every device of the process), not only for the host's queue",
            )
        )

    def _times(self, model: str) -> list[Mapping[str, float]]:
        answer = self._answer(model)
        if answer["clock"] == "blocking":
            pytest.skip(
                "the clock is 'blocking': a step is done when `step` returns, so there is nothing to see"
            )
        times: list[Mapping[str, float]] = answer["asynchrony"]
        return times

    def _said(self, model: str) -> str:
        best = self._times(model)[-1]
        return (
            f"{best['steps']} steps took {best['enqueue'] * 1e3:.1f} ms to enqueue, {best['synchronize'] * 1e3:.1f} ms "
            f"to synchronise, {best['read'] * 1e3:.1f} ms to read"
        )


def _whole(times: Mapping[str, float]) -> float:
    return times["enqueue"] + times["synchronize"] + times["read"]
