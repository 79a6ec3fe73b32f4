"""Speeds of nodes: slow, fast, alike, and what too few or too different nodes leave open."""

import random
import re

import pytest

from dlperf_sdk.analysis.node_speed import ALIKE, FAST, INCONCLUSIVE, SLOW, compare_speeds, required_nodes

SOUND = {"n1": 100.0, "n2": 100.2, "n3": 99.9, "n4": 100.1, "n5": 99.8, "n6": 100.0}


def outcomes(throughputs, minimum_effect=0.03):
    speeds = compare_speeds(throughputs, minimum_effect=minimum_effect, level=0.05)
    return {name: speed.outcome for name, speed in speeds.items()}


def test_alike_nodes():
    assert set(outcomes(SOUND).values()) == {ALIKE}


def test_slow_nodes_are_found_and_the_others_are_alike():
    actual = outcomes({**SOUND, "n2": 95.0, "n5": 94.0})
    assert {name for name, outcome in actual.items() if outcome == SLOW} == {"n2", "n5"}
    assert {actual[name] for name in ("n1", "n3", "n4", "n6")} == {ALIKE}


def test_a_fast_node_is_not_slow():
    assert outcomes({**SOUND, "n2": 106.0})["n2"] == FAST


def test_an_outlier_below_the_minimum_effect_is_alike():
    assert outcomes({**SOUND, "n2": 98.5})["n2"] == ALIKE
    assert outcomes({**SOUND, "n2": 98.5}, minimum_effect=0.01)["n2"] == SLOW


@pytest.mark.parametrize("names", [["n1"], ["n1", "n2"]])
def test_too_few_nodes_are_inconclusive(names):
    speeds = compare_speeds({name: SOUND[name] for name in names}, minimum_effect=0.03, level=0.05)
    assert {speed.outcome for speed in speeds.values()} == {INCONCLUSIVE}
    assert all("other node" in s.detail or "at least 3 nodes" in s.detail for s in speeds.values())


def test_nodes_that_vary_too_much_are_inconclusive_with_advice():
    throughputs = {"n1": 100.0, "n2": 104.0, "n3": 96.5, "n4": 101.0}
    speed = compare_speeds(throughputs, minimum_effect=0.03, level=0.05)["n3"]
    assert speed.outcome == INCONCLUSIVE
    assert "neither shown nor ruled out" in speed.detail
    assert speed.detail.endswith(
        "No number of nodes decides that: measure repeats 12 times as long (this assumes independent steps), or raise "
        "the minimum effect to 10 %."
    )


def test_advice_on_longer_repeats_states_their_length_as_the_gate_does():
    throughputs = {f"n{number}": 100.0 + number % 5 for number in range(12)}

    def advice(**changes):
        return compare_speeds(throughputs, **{"minimum_effect": 0.03, "level": 0.05, **changes})["n0"].detail

    match = re.search(r"repeats (\d+) times as long \((\d+) steps; this assumes", advice(steps=100))
    longer, steps = map(int, match.groups())
    assert steps == 100 * longer
    assert f"repeats {longer} times as long (this assumes independent steps)" in advice()
    # So many times the steps reduce the deviation enough, and fewer do not.
    deviation = float(re.search(r"vary by ([\d.]+) %", advice())[1]) / 100
    assert required_nodes(deviation / longer**0.5, 0.03, 0.05) <= len(throughputs)
    too_few = required_nodes(deviation / (longer - 1) ** 0.5, 0.03, 0.05)
    assert too_few is None or too_few > len(throughputs)


def test_the_required_number_of_nodes_suffices():
    count = required_nodes(0.006, 0.03, 0.05)
    source, fleets = random.Random(1), 400
    alike = 0
    for _ in range(fleets):
        throughputs = {str(node): 100 * (1 + source.gauss(0, 0.006)) for node in range(count)}
        alike += set(outcomes(throughputs).values()) == {ALIKE}
    assert alike / fleets >= 0.7
    assert required_nodes(0.03, 0.03, 0.05) is None
