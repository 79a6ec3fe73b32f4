"""Prediction: right where the answer is known, and honest where it is not."""

import math

import attrs
import pytest
from test_comparison import a_case

from dlperf_sdk import analysis
from dlperf_sdk.errors import AnalysisError
from dlperf_sdk.registry.plugins import Registry

REFERENCE = Registry().collection("dlperf-v1.0").figures


def predict(sources, topology):
    return analysis.predict(sources, topology, reference=REFERENCE)


def a_series(steps, **facts):
    """Cases by topology from seconds per step."""
    return [
        attrs.evolve((case := a_case(topology=topology, **facts)), throughput=case.global_batch_size / step)
        for topology, step in steps.items()
    ]


SERIES = a_series({"1n1d": 0.1, "1n8d": 0.105, "2n8d": 0.115})


def test_names_play_no_part():
    named = a_series({"1n1d": 0.1, "1n8d": 0.105, "2n8d": 0.115}, framework="mxnet", model="bert-base")
    ours, theirs = predict(SERIES, "4n8d"), predict(named, "4n8d")
    assert (ours.throughput, ours.low, ours.high) == (theirs.throughput, theirs.low, theirs.high)


def test_the_prediction_lies_between_standing_still_and_losing_as_much_again():
    found = predict(SERIES, "4n8d")
    assert 0.115 < found.step_time < 0.125 + 0.1 * 0.025
    assert found.low < found.throughput < found.high
    assert found.throughput == pytest.approx(32 * 32 / found.step_time)
    assert (str(found.measured), found.doublings, found.notes) == ("2n8d", 1.0, ())


def test_the_further_the_wider_and_it_says_so():
    near, far = predict(SERIES, "4n8d"), predict(SERIES, "128n8d")
    assert math.log(far.high / far.low) == pytest.approx(6 * math.log(near.high / near.low))
    assert far.doublings == 6
    assert "no published series goes further than one doubling" in far.notes[0]


def test_a_series_that_lost_more_is_predicted_with_more_doubt():
    bad = predict(a_series({"1n1d": 0.1, "1n8d": 0.15, "2n8d": 0.2}), "4n8d")
    good = predict(SERIES, "4n8d")
    assert math.log(bad.high / bad.low) > 2 * math.log(good.high / good.low)


def test_a_superlinear_series_is_not_predicted_to_go_on():
    found = predict(a_series({"1n1d": 0.1, "1n8d": 0.105, "2n8d": 0.1}), "4n8d")
    assert found.step_time >= 0.1


def test_a_series_of_the_reference_is_left_out_of_it():
    table = REFERENCE.where(framework="mxnet", implementation="gluon-nlp", batch_size=64)
    series = table.where(precision="fp32", topology=("1n1d", "1n8d", "2n8d"))
    own = {(figure.source.document, figure.source.line) for figure in table.where(precision="fp32")}
    rest = [f for f in REFERENCE if (f.source.document, f.source.line) not in own]
    assert predict(series, "4n8d") == analysis.predict(series, "4n8d", reference=rest)


@pytest.mark.parametrize(
    ("steps", "wanted", "said"),
    [
        ({"1n1d": 0.1, "1n8d": 0.1}, "4n8d", "1n8d and at least 2n8d must be measured"),
        ({"1n1d": 0.1, "2n8d": 0.1}, "4n8d", "1n8d and at least 2n8d must be measured"),
        ({"1n4d": 0.1, "2n4d": 0.1}, "4n8d", "1n8d and at least 2n8d"),
        ({"1n8d": 0.1}, "1n16d", "1n1d and at least 1n2d"),
        ({"1n8d": 0.1, "2n8d": 0.1}, "2n8d", "not larger than what was measured"),
    ],
)
def test_too_little_is_refused(steps, wanted, said):
    with pytest.raises(AnalysisError, match=said):
        predict(a_series(steps), wanted)


def test_several_series_are_refused():
    with pytest.raises(AnalysisError, match="2 series, not one: they differ in precision"):
        predict([*SERIES, *a_series({"1n1d": 0.1}, precision="tf32")], "4n8d")
    with pytest.raises(AnalysisError, match="twice"):
        predict([*SERIES, *a_series({"1n1d": 0.2})], "4n8d")
    with pytest.raises(AnalysisError, match="nothing to predict from"):
        predict([], "4n8d")
    with pytest.raises(AnalysisError, match="at least ten are needed"):
        analysis.predict(SERIES, "4n8d", reference=SERIES)
