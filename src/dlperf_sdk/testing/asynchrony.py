"""Test the clock that a plugin declares: `step` enqueues, and `synchronize` waits for all that was enqueued."""

from __future__ import annotations

import pytest

from dlperf_sdk.registry.capabilities import device_of
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.testing.cells import Cell
from dlperf_sdk.testing.conformance import advice
from dlperf_sdk.testing.subject import describe
from dlperf_sdk.testing.training import Training
from dlperf_sdk.worker.enqueue_times import Times, is_asynchronous, was_done_at_once, was_waited_for

NOT_BLOCKING = (
    "the clock is not 'blocking': `test_synchronize_waits` tests work that continues after `step` returns"
)
"""Reason of a skip in the test of the clock "blocking"."""
BLOCKING = "the clock is 'blocking': no work continues after `step` returns"
"""Reason of a skip in tests of the clocks "event" and "lagged"."""


class Asynchrony(Training):
    """Tests of a worker's clock, in each cell of one replica and of two.

    A compiler may replace `step`, and replicas may wait for each other. Therefore every cell is tested. With two
    replicas and the clock "blocking", tests are skipped: work that continues after a step is detected with one replica.
    Times are measured up to three times, and one plausible measurement is enough. Each test is also skipped where its
    case cannot run: see `FrameworkSubject`.
    """

    def test_nothing_changes_after_synchronize(self, any_cell: Cell) -> None:
        """With the settings of `any_cell`, no rank's parameters change within 0.1 s after `synchronize` returns.

        `any_cell` is a combination of model, precision and compiler, and of strategy if there are two replicas.
        """
        spec = self.spec_of(any_cell)
        self._skip_blocking_pair(spec)
        assert all(answer["settled"] for answer in self._values_of(spec)), advice(
            f"{describe(spec)}: the parameters changed after `synchronize` had returned.",
            "the window ends with `synchronize`: work that goes on behind it is not measured",
            "wait in `synchronize` for all that `step` has enqueued, the optimizer's update included, on every device",
        )

    def test_accelerator_is_asynchronous(self, any_cell: Cell) -> None:
        """With the settings of `any_cell`, no rank has the clock "blocking". Skipped on a CPU.

        `any_cell` is a combination of model, precision and compiler, and of strategy if there are two replicas.
        """
        device = device_of(self.device, self.plugin)
        if device == "cpu":
            pytest.skip("on a CPU the host may do the work of a step itself, so the clock may be 'blocking'")
        spec = self.spec_of(any_cell)
        waits = [rank for rank, answer in enumerate(self._values_of(spec)) if answer["clock"] == "blocking"]
        assert not waits, advice(
            f"{describe(spec)}: on {device} the clock of rank {waits} is 'blocking'.",
            "a host that waits for every step leaves the device idle between them, and the number is not the "
            "framework's",
            "wait in `synchronize` alone, and set the clock 'event' with `mark` and `elapsed`, or 'lagged' with `wait`",
        )

    def test_step_does_not_synchronize(self, any_cell: Cell) -> None:
        """Each rank's device still has the work of a step or more when the last of several calls of `step` returns.

        The trainers have the settings of `any_cell`. Skipped if the clock of all ranks is "blocking"; single ranks with
        that clock are left out. `any_cell` is a combination of model, precision and compiler, and of strategy if there
        are two replicas.
        """
        spec = self.spec_of(any_cell)
        for rank, times in enumerate(self._times(spec)):
            if not any(is_asynchronous(times_of_rank) for times_of_rank in times):
                pytest.fail(
                    advice(
                        f"{describe(spec)}: {_describe_times(rank, times)}: when `step` returned, hardly "
                        "anything was left to wait for.",
                        "a device that waits for the host between steps is slower than it could be, and the number "
                        "is not the framework's",
                        "wait for nothing in `step`: no reading of the loss, no synchronization. If steps are simply "
                        "too short to tell, raise `batch_size` (`--batch-size`); if on a CPU the framework cannot do "
                        "otherwise in this case (look what the failing ones share: the compiler, often), let the "
                        "runtime's constructor set the clock 'blocking' for it: on a device that works by itself no "
                        "clock is",
                    )
                )

    def test_synchronize_waits(self, any_cell: Cell) -> None:
        """With the settings of `any_cell`, all steps are done when `synchronize` returns, on every rank.

        The evidence is that reading the losses afterwards takes hardly any time, and, with the clock "event", that the
        time between the device's events is at most the time that the host waited. Skipped if the clock of all ranks is
        "blocking"; single ranks with that clock are left out. `any_cell` is a combination of model, precision and
        compiler, and of strategy if there are two replicas.
        """
        spec = self.spec_of(any_cell)
        for rank, times in enumerate(self._times(spec)):
            if not any(was_waited_for(times_of_rank) for times_of_rank in times):
                pytest.fail(
                    advice(
                        f"{describe(spec)}: {_describe_times(rank, times)}: `synchronize` returned before the "
                        "steps were done.",
                        "the window ends with `synchronize`: without it steps are counted that have only been enqueued",
                        "wait in `synchronize` for the device (every device of the process), not only for the host's "
                        "queue",
                    )
                )

    def test_blocking_step_completes_before_returning(self, cell: Cell) -> None:
        """With the clock "blocking", hardly any work is left when the last of several calls of `step` returns.

        `synchronize` and reading the losses together then take at most 40 % of the time of one step. The trainer has
        the settings of `cell`. Skipped if the runtime has another clock. `cell` is a combination of model, precision
        and compiler for one replica.
        """
        spec = self.spec_of(cell)
        answer = self._values_of(spec)[0]
        if answer["clock"] != "blocking":
            pytest.skip(NOT_BLOCKING)
        times = answer["asynchrony"]
        assert any(was_done_at_once(times_of_rank) for times_of_rank in times), advice(
            f"{describe(spec)}: the clock is 'blocking', and when `step` returned much was left to do: "
            f"{_describe_times(0, times)}.",
            "steps that go on behind the host are counted before they are done, and their times are those of "
            "enqueueing",
            "set the clock 'lagged' and implement `wait`, or 'event' with `mark` and `elapsed`, and `synchronize` for "
            "both; on a CPU, too, a framework may hand its work to its own threads",
        )

    def _times(self, spec: RunSpec) -> list[list[Times]]:
        """Return, by rank, the times of each try."""
        self._skip_blocking_pair(spec)
        answers = self._values_of(spec)
        if all(answer["clock"] == "blocking" for answer in answers):
            pytest.skip(BLOCKING)
        return [answer["asynchrony"] for answer in answers if answer["clock"] != "blocking"]

    def _skip_blocking_pair(self, spec: RunSpec) -> None:
        """Skip two replicas whose clock is 'blocking'; of one, the worker is asked."""
        if spec.topology.devices > 1:
            clocks = {record.clock for repeat in self.result_of(spec).repeats for record in repeat.records}
            if clocks == {"blocking"}:
                pytest.skip(BLOCKING)


def _describe_times(rank: int, times: list[Times]) -> str:
    last = times[-1]
    text = (
        f"on rank {rank} {last['steps']} steps took {last['enqueue'] * 1e3:.1f} ms to enqueue, "
        f"{last['synchronize'] * 1e3:.1f} ms to synchronize, {last['read'] * 1e3:.1f} ms to read"
    )
    return (
        text
        if last["device"] is None
        else f"{text}, and {last['device'] * 1e3:.1f} ms by the device's own events"
    )
