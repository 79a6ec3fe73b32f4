"""The three clocks: k + 1 stamps for k steps, and none of them waits for more than it says."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlperf_sdk.worker import clocks
from dlperf_sdk.worker.interface import Runtime

DURATIONS = st.lists(st.integers(0, 10**9).map(lambda n: n / 2**20), min_size=1, max_size=50)


class Device(Runtime):
    """A device that works through a queue while the host goes on; both tell their time from one simulated clock."""

    def __init__(self, durations, overhead=0.0):
        self.now, self.free, self.overhead = 0.0, 0.0, overhead
        self.durations = iter(durations)
        self.done, self.log = {}, []

    def enqueue(self, step):
        self.now += self.overhead
        self.free = max(self.free, self.now) + next(self.durations)
        self.done[step] = self.free
        self.log.append(("enqueue", step))
        return step

    def wait(self, loss):
        self.log.append(("wait", loss))
        self.now = max(self.now, self.done[loss])

    def synchronize(self):
        self.now = max(self.now, self.free)

    def mark(self):
        return self.free

    def elapsed(self, marks):
        return [later - earlier for earlier, later in itertools.pairwise(marks)]


def window(name, device, steps, blocking=False):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clocks, "monotonic", lambda: device.now)
        clock = clocks.CLOCKS[name](device)
        start = device.now
        clock.begin(start)
        for step in range(steps):
            loss = device.enqueue(step)
            if blocking:
                device.synchronize()
            clock.step(loss)
        device.synchronize()
        return clock.seconds(device.now), device.now - start


@given(DURATIONS)
@pytest.mark.parametrize("name", sorted(clocks.CLOCKS))
def test_every_clock_gives_the_time_of_each_step(name, durations):
    """With a host that costs nothing, all three see exactly the device's durations."""
    seconds, whole = window(name, Device(durations), len(durations), blocking=name == "blocking")
    assert seconds == durations
    assert sum(seconds) == whole


@given(DURATIONS, st.integers(0, 2**20).map(lambda n: n / 2**20))
def test_the_lagged_clock_fills_the_window(durations, overhead):
    """Its steps add up to the window, whatever the host costs."""
    seconds, whole = window("lagged", Device(durations, overhead), len(durations))
    assert len(seconds) == len(durations)
    assert sum(seconds) == pytest.approx(whole, rel=1e-12, abs=1e-12)
    assert all(second >= 0 for second in seconds)


@given(st.integers(1, 30))
def test_the_lagged_clock_leaves_the_device_one_step_to_do(steps):
    device = Device([1.0] * steps)
    window("lagged", device, steps)
    waited = [i for i, (what, _) in enumerate(device.log) if what == "wait"]
    for i in waited:
        assert device.log[i] == ("wait", device.log[i - 1][1] - 1)
    assert len(waited) == steps - 1


@pytest.mark.parametrize("name", ["event", "blocking"])
def test_the_other_clocks_never_wait(name):
    device = Device([1.0] * 9)
    window(name, device, 9)
    assert all(what == "enqueue" for what, _ in device.log)


@pytest.mark.parametrize("method", ["mark", "elapsed", "wait"])
def test_runtime_without_methods_of_its_clock_is_reported(method):
    runtime = Runtime.__new__(Runtime)
    with pytest.raises(NotImplementedError, match=rf"implements {method}\(\)"):
        getattr(runtime, method)(*([] if method == "mark" else [None]))
