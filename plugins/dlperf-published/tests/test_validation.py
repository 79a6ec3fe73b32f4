"""The quality of predictions: the largest topology of every published series, predicted from the others."""

import math

import pytest
from dlperf_published import source_data
from dlperf_published.collections import COLLECTIONS
from dlperf_published.validation import predict_largest_topologies, summary

from dlperf_sdk.analysis import Case, prediction


@pytest.fixture(scope="module")
def trials():
    return {each.name: predict_largest_topologies(each().figures) for each in COLLECTIONS}


def test_the_prediction_meets_its_bounds_over_nodes(trials):
    """At most 3 % in the median, 8 % at the 90th percentile, nine of ten truths in the 90 % interval."""
    found = summary([t for t in trials["dlperf-v1.0"] if t.prediction.topology.nodes > 1])
    print(found)
    assert found.trials == 63
    assert found.median <= 0.03
    assert found.ninetieth <= 0.08
    assert found.covered >= 0.9


def test_all_series_together_meet_the_bounds(trials):
    everything = [trial for each in trials.values() for trial in each]
    for trial in everything:
        print(f"{trial.error:+7.1%} {'in' if trial.covered else 'OUT'}  {trial.truth.name}")
    found = summary(everything)
    print(found)
    assert found.trials == 63 + 3 + 16 + 8
    assert found.median <= 0.03
    assert found.ninetieth <= 0.08
    assert found.covered >= 0.9


def test_within_one_node_it_is_stated_what_is_reached(trials):
    """tensorpack's single runs are missed by more than the bound of the median; the docs say so."""
    tf, tensorpack = summary(trials["tf-cnn-2017"]), summary(trials["tensorpack"])
    assert (tf.trials, tensorpack.trials) == (16, 8)
    assert tf.median <= 0.03 and tf.ninetieth <= 0.08
    assert 0.03 < tensorpack.median <= 0.05 and tensorpack.ninetieth <= 0.08
    assert min(tf.covered, tensorpack.covered) >= 0.9


def test_it_beats_a_plain_ring_on_the_same_series(trials):
    """A ring that is fitted to one and to sixteen devices."""
    table = source_data.figures("dlperf-v1.0")
    errors = []
    for trial in (t for t in trials["dlperf-v1.0"] if t.prediction.topology.nodes > 1):
        series = next(
            each
            for each in prediction.group_by_series(map(Case.from_source, table))
            if trial.truth in each.values()
        )
        step = {str(topology): case.step_time for topology, case in series.items()}
        ring = step["1n1d"] + (step["2n8d"] - step["1n1d"]) * (31 / 32) / (15 / 16)
        errors.append(abs(trial.truth.step_time / ring - 1))
    ours = summary([t for t in trials["dlperf-v1.0"] if t.prediction.topology.nodes > 1])
    assert ours.median < sorted(errors)[len(errors) // 2]
    assert ours.ninetieth < sorted(errors)[math.ceil(0.9 * len(errors)) - 1]
