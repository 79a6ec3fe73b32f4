"""The stopping rule, compared with its definition and by its coverage."""

from __future__ import annotations

import itertools
import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlperf_sdk.spec.protocol import PROTOCOLS
from dlperf_sdk.worker import estimate
from dlperf_sdk.worker.agent.stopping import decide, planned_repeats

RATES = st.lists(st.floats(1.0, 1e6), min_size=1, max_size=40)


def protocol(repeats, max_repeats, target):
    return {"repeats": repeats, "max_repeats": max_repeats, "target": target}


@given(RATES, st.integers(1, 40))
def test_a_fixed_number_of_repeats(rates, repeats):
    decision = decide(rates, protocol(repeats, repeats, None))
    assert decision.stop == decision.met == (len(rates) >= repeats)
    assert f"{len(rates)} of {repeats}" in decision.detail


def mean_distance(values):
    pairs = [abs(a - b) for a, b in itertools.combinations(values, 2)]
    return sum(pairs) / len(pairs)


@given(RATES, st.integers(1, 12), st.integers(0, 20), st.floats(0.001, 0.5))
def test_an_adaptive_number_of_repeats(rates, least, more, target):
    """Only the first repeats decide: the standard error of the median of the others is target / 1.96."""
    most, first = least + more, max(6, least)
    decision = decide(rates, protocol(least, most, target))
    assert decision.stop == (decision.met or len(rates) >= most)
    if len(rates) < first:
        assert not decision.met
        return
    noise = math.sqrt(math.pi) / 2 * mean_distance(rates[:first]) / statistics.median(rates[:first])
    planned = first + (1.96 * noise * math.sqrt(math.pi / 2) / target) ** 2
    if abs(planned - round(planned)) > 1e-6 * planned:
        assert decision.met == (planned <= len(rates) and planned <= most)


@given(st.lists(st.floats(1.0, 1e6), min_size=1, max_size=30))
def test_an_adaptive_run_ends(rates):
    """Taken one by one, repeats come to an end at the most allowed, and the plan is the only other way out."""
    rule = protocol(6, 30, 0.01)
    for taken in range(1, 31):
        decision = decide((rates * 30)[:taken], rule)
        if decision.stop:
            break
    assert decision.stop
    assert decision.met or taken == 30
    assert decision.met or "at most 30 are allowed" in decision.detail


def test_later_repeats_do_not_change_the_plan():
    pilot = [100.0, 101.0, 99.0, 100.5, 99.5, 100.0]
    rule = protocol(6, 30, 0.01)
    planned = planned_repeats(pilot, 0.01)
    assert planned == 10
    for later in ([100.0] * 24, [50.0, 150.0] * 12):
        stops = [decide((pilot + later)[:taken], rule).stop for taken in range(1, 31)]
        assert stops.index(True) + 1 == planned


def test_the_interval_keeps_its_coverage():
    """At a noise of 1.5 and 2 %: all runs, and those that took the planned repeats; the rule that stopped at a short
    interval had 93 and 88 % of the latter."""
    source, rule = random.Random(1), protocol(6, 30, 0.01)
    covered, covered_if_met = [], []
    for run in range(1200):
        noise = 0.015 if run % 2 else 0.02
        rates = [source.gauss(1, noise)]
        while not (decision := decide(rates, rule)).stop:
            rates.append(source.gauss(1, noise))
        low, high = estimate.median_interval(rates)
        covered.append(low <= 1 <= high)
        if decision.met:
            covered_if_met.append(covered[-1])
    assert len(covered_if_met) > 600
    assert statistics.mean(covered) > 0.945
    assert statistics.mean(covered_if_met) > 0.94


def test_missed_target_is_reported():
    noisy = [100.0, 200.0] * 15
    decision = decide(noisy, protocol(6, 30, 0.01))
    assert (decision.stop, decision.met) == (True, False)
    assert decision.detail == (
        "7590 repeats for ±1.00 % were planned from the first 6, and at most 30 are allowed; after 30 the median is "
        "known within ±33.33 %"
    )


@pytest.mark.parametrize("taken", [1, 5])
def test_fewer_repeats_than_the_pilot_cannot_meet_the_target(taken):
    decision = decide([1.0] * taken, protocol(1, 5, 0.01))
    assert decision.stop == (taken == 5)
    assert not decision.met
    assert decision.detail == f"{taken} of at most 5 repeats; the first 6 plan the others"


def test_the_named_protocols():
    adaptive = PROTOCOLS["adaptive"]
    rule = protocol(adaptive.repeats, adaptive.max_repeats, adaptive.target)
    steady = [1000.0, 1001.0, 999.0, 1000.5, 999.5, 1000.0]
    assert not decide(steady[:5], rule).stop
    assert not decide(steady, rule).stop
    assert decide([*steady, 1000.0], rule).met
    fixed = PROTOCOLS["dlperf-v1"]
    assert decide(steady + [1.0], protocol(fixed.repeats, fixed.max_repeats, None)).met
