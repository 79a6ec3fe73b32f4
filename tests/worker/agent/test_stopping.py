"""The stopping rule, against a brute-force reading of it."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlperf_sdk.spec.protocol import PROTOCOLS
from dlperf_sdk.worker.agent.stopping import decide

RATES = st.lists(st.floats(1.0, 1e6), min_size=1, max_size=40)


def protocol(repeats, max_repeats, target):
    return {"repeats": repeats, "max_repeats": max_repeats, "target": target}


def interval(values):
    """The narrowest pair of order statistics that holds the median with 95 %: all pairs k, n + 1 - k are tried."""
    n, ordered = len(values), sorted(values)
    best = None
    for k in range(1, n // 2 + 1):
        inside = sum(math.comb(n, i) for i in range(k, n - k + 1)) / 2**n
        if inside >= 0.95:
            best = ordered[k - 1], ordered[n - k]
    return best


@given(RATES, st.integers(1, 40))
def test_a_fixed_number_of_repeats(rates, repeats):
    decision = decide(rates, protocol(repeats, repeats, None))
    assert decision.stop == decision.met == (len(rates) >= repeats)
    assert f"{len(rates)} of {repeats}" in decision.detail


@given(RATES, st.integers(1, 12), st.integers(0, 20), st.floats(0.001, 0.5))
def test_an_adaptive_number_of_repeats(rates, least, more, target):
    most = least + more
    decision = decide(rates, protocol(least, most, target))
    known = interval(rates)
    middle = statistics.median(rates)
    close = known is not None and max(known[1] - middle, middle - known[0]) <= target * middle
    near = known is not None and math.isclose(
        max(known[1] - middle, middle - known[0]), target * middle, rel_tol=1e-9
    )
    if not near:
        assert decision.met == (len(rates) >= least and close)
    assert decision.stop == (decision.met or len(rates) >= most)


@given(st.lists(st.floats(1.0, 1e6), min_size=1, max_size=30))
def test_an_adaptive_run_ends(rates):
    """Taken one by one, repeats come to an end at the most allowed, and the target is the only other way out."""
    rule = protocol(6, 30, 0.01)
    for taken in range(1, 31):
        decision = decide((rates * 30)[:taken], rule)
        if decision.stop:
            break
    assert decision.stop
    assert decision.met or taken == 30
    assert decision.met or "was asked for" in decision.detail


def test_what_was_not_met_is_said():
    noisy = [100.0, 200.0] * 15
    decision = decide(noisy, protocol(6, 30, 0.01))
    assert (decision.stop, decision.met) == (True, False)
    assert decision.detail == (
        "the median is known within ±33.33 % only, ±1.00 % was asked for, after 30 of at most 30 repeats"
    )


@pytest.mark.parametrize("taken", [1, 5])
def test_fewer_than_six_repeats_give_no_interval(taken):
    decision = decide([1.0] * taken, protocol(1, 5, 0.01))
    assert decision.stop == (taken == 5)
    assert not decision.met
    assert decision.detail == f"{taken} repeats give no interval; six do"


def test_the_named_protocols():
    adaptive = PROTOCOLS["adaptive"]
    rule = protocol(adaptive.repeats, adaptive.max_repeats, adaptive.target)
    steady = [1000.0, 1001.0, 999.0, 1000.5, 999.5, 1000.0]
    assert not decide(steady[:5], rule).stop
    assert decide(steady, rule).met
    fixed = PROTOCOLS["dlperf-v1"]
    assert decide(steady + [1.0], protocol(fixed.repeats, fixed.max_repeats, None)).met
