"""What the times of four steps say of a worker; a step takes a second."""

from __future__ import annotations

from typing import Any

import pytest

from dlperf_sdk.worker.enqueue_times import (
    is_asynchronous,
    is_plausible,
    remaining_seconds,
    total_seconds,
    unfinished_share,
    was_done_at_once,
    was_waited_for,
)


def times(enqueue: float, synchronize: float, read: float, device: float | None = None) -> dict[str, Any]:
    return {"enqueue": enqueue, "synchronize": synchronize, "read": read, "device": device, "steps": 4}


ASYNCHRONOUS = times(0.1, 3.9, 0.0)
IN_STEP = times(4.0, 0.0, 0.0)
STEP_LEFT = times(3.0, 1.0, 0.0)
LOSS_ONLY = times(3.6, 0.4, 0.0)
UNWAITED = times(0.1, 0.0, 3.9)
HALF_WAITED = times(0.1, 3.0, 0.9)


@pytest.mark.parametrize(
    ("what", "alone", "waited", "at_once"),
    [
        pytest.param(ASYNCHRONOUS, True, True, False, id="asynchronous"),
        pytest.param(IN_STEP, False, True, True, id="all of it in step"),
        pytest.param(STEP_LEFT, True, True, False, id="the last step is left"),
        pytest.param(
            LOSS_ONLY, False, True, True, id="two fifths of the last step are left: no more is allowed"
        ),
        pytest.param(times(3.5, 0.5, 0.0), False, True, False, id="half of the last step is left"),
        pytest.param(UNWAITED, False, False, False, id="reading waits"),
        pytest.param(HALF_WAITED, True, False, False, id="reading waits for the last step"),
    ],
)
def test_by_the_hosts_clock(what: dict[str, Any], alone: bool, waited: bool, at_once: bool) -> None:
    assert (is_asynchronous(what), was_waited_for(what), was_done_at_once(what)) == (alone, waited, at_once)
    assert is_plausible("blocking", what) is at_once
    assert is_plausible("lagged", what) is (alone and waited)
    assert total_seconds(what) == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("what", "remains", "too_early", "alone", "waited"),
    [
        pytest.param(times(0.1, 3.9, 0.0, 4.0), 3.9, 0.0, True, True, id="waited for"),
        pytest.param(times(0.1, 1.9, 0.0, 4.0), 3.9, 0.5, True, False, id="half of it waited for"),
        pytest.param(times(4.0, 0.1, 0.0, 4.0), 0.0, -0.025, False, True, id="the host was no faster"),
        pytest.param(times(3.9, 0.1, 0.0, 0.4), -3.5, -9.0, False, True, id="the device waited for the host"),
    ],
)
def test_by_the_devices_own_events(
    what: dict[str, Any], remains: float, too_early: float, alone: bool, waited: bool
) -> None:
    assert remaining_seconds(what) == pytest.approx(remains)
    assert unfinished_share(what) == pytest.approx(too_early)
    assert (is_asynchronous(what), was_waited_for(what)) == (alone, waited)
