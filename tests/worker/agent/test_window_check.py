"""The agent's own view of a window: it contradicts what cannot have been, and never what was."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlperf_sdk.worker.agent.window_check import SLACK, WindowCheck

LOOK = 0.1
GAPS = st.floats(0.0, SLACK / 3 - 1e-6)
LOOKS = st.lists(st.tuples(st.floats(0.001, 1.0), st.floats(0.0, 0.05)), min_size=1, max_size=60)


def seen(went, entered, left, looks):
    """A witness of a worker that was told to go, and said "measure" from `entered` until `left`.

    `looks` are pauses and how long a look takes, at whose beginning the worker's counter is read.
    """
    witness, now = WindowCheck(), 0.0
    sent = False
    for pause, takes in [*looks, (max(0.0, left), 0.01)]:
        now += pause
        if now >= went and not sent:  # one thread looks and tells it to go
            witness.release(went)
            sent = True
        phase = "ready" if now < entered else "measure" if now < left else "teardown"
        witness.observe_phase(phase, now, now + takes)
        now += takes
    return witness


@given(st.floats(0.0, 5.0), st.floats(0.001, 20.0), GAPS, GAPS, GAPS, LOOKS)
def test_consistent_window_is_never_contradicted(went, seconds, wakes, late, early, looks):
    """Whenever the agent looks, and though the worker lies still before and behind its clock's readings."""
    entered = went + wakes
    witness = seen(went, entered, entered + late + seconds + early, looks)
    assert witness.find_contradiction({"start": 1000.0, "end": 1000.0 + seconds}) is None


def test_worker_that_waited_long_for_a_processor_is_accepted():
    """Told to go with many others, seen once while it waits for its turn and once in its window."""
    witness = WindowCheck()
    witness.release(10.0)
    witness.observe_phase("ready", 13.0, 13.1)
    witness.observe_phase("measure", 13.4, 13.5)
    assert witness.find_contradiction({"start": 0.0, "end": 0.3}) is None


@given(st.floats(0.0, 5.0), st.floats(4.0, 20.0), st.floats(0.0, 0.5))
def test_half_a_window_is_contradicted(entered, seconds, offset):
    looks = [(LOOK, 0.001)] * int((entered + seconds) / LOOK + 5)
    output = seen(entered, entered, entered + seconds, looks).find_contradiction(
        {"start": offset, "end": offset + seconds / 2 - 0.2}
    )
    assert output is not None
    assert "its agent saw it measure" in output


def test_a_window_longer_than_it_can_have_been():
    looks = [(LOOK, 0.001)] * 50
    assert "saw it end" in seen(1.0, 1.0, 2.0, looks).find_contradiction({"start": 0.0, "end": 9.0})


def test_a_phase_that_goes_back_hides_nothing():
    """A worker that says it is over, and goes on."""
    witness = WindowCheck()
    witness.release(0.0)
    for now, phase in enumerate(("measure", "teardown", "ready", "measure", "teardown")):
        witness.observe_phase(phase, 2.0 * now, 2.0 * now + 0.001)
    assert "its agent saw it measure" in witness.find_contradiction({"start": 0.0, "end": 2.0})


def test_an_agent_that_saw_nothing_contradicts_nothing():
    assert WindowCheck().find_contradiction({"start": 0.0, "end": 1e9}) is None


@pytest.mark.parametrize("window", [
    None, "long", [], {}, {"start": 1.0}, {"start": "yesterday", "end": 1}, {"start": None, "end": 1},
    {"start": 0, "end": 10**400},
], ids=str)  # fmt: skip
def test_invalid_window_is_left_to_the_schema(window):
    looks = [(LOOK, 0.001)] * 50
    assert seen(1.0, 1.0, 2.0, looks).find_contradiction(window) is None
