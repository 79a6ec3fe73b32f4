"""Prediction: right where the answer is known, and honest where it is not."""

import math
import random

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


def test_prediction_lies_between_constant_efficiency_and_repeated_loss():
    actual = predict(SERIES, "4n8d")
    assert 0.115 < actual.step_time < 0.125 + 0.1 * 0.025
    assert actual.low < actual.throughput < actual.high
    assert actual.throughput == pytest.approx(32 * 32 / actual.step_time)
    assert (str(actual.measured), actual.doublings, actual.notes) == ("2n8d", 1.0, ())


def test_interval_widens_with_distance_and_the_note_says_so():
    near, far = predict(SERIES, "4n8d"), predict(SERIES, "128n8d")
    assert math.log(far.high / far.low) == pytest.approx(6 * math.log(near.high / near.low))
    assert far.doublings == 6
    assert far.notes == (
        "Not validated: too few published series go from 2 to 128 nodes, so there is no point forecast. "
        "Measure 128n8d: no smaller topology allows a point forecast.",
        "The growth is that of one doubling of published series, and the interval is 6.0 times as wide.",
    )
    assert far.accuracy is far.throughput is far.step_time is None
    assert near.throughput is not None
    assert "Not validated" in predict(a_series({"2n8d": 0.115, "4n8d": 0.12}), "8n8d").notes[0]


def test_a_depth_that_misses_the_goal_has_an_interval_only():
    """Here, what happens between two and four devices decides the rest, and two devices do not show it."""
    chance, reference = random.Random(1), []
    for number in range(30):
        loss = chance.choice([0, 0.3])
        end = 0.1 * math.exp(2 * loss)
        reference += a_series({"1n1d": 0.1, "1n2d": 0.1, "1n8d": end}, framework=f"first-{number}")
        middle = 0.1 * math.exp(loss)
        reference += a_series({"1n2d": 0.1, "1n4d": middle, "1n8d": end}, framework=f"second-{number}")
    actual = analysis.predict(a_series({"1n1d": 0.1, "1n2d": 0.1}), "1n8d", reference=reference)
    assert actual.throughput is actual.step_time is None
    assert actual.low < actual.high and not actual.accuracy.meets_goal
    (note,) = actual.notes
    assert note.startswith(
        "No point forecast from 2 to 8 devices of a node: on published series of other releases"
    )
    assert note.endswith("Measure 1n4d as well for a point forecast.")
    with_four = analysis.predict(a_series({"1n2d": 0.1, "1n4d": 0.13}), "1n8d", reference=reference)
    assert with_four.throughput == pytest.approx(8 * 32 / 0.169) and with_four.notes == ()


def test_a_series_that_lost_more_is_predicted_with_more_doubt():
    bad = predict(a_series({"1n1d": 0.1, "1n8d": 0.15, "2n8d": 0.2}), "4n8d")
    good = predict(SERIES, "4n8d")
    assert math.log(bad.high / bad.low) > 2 * math.log(good.high / good.low)


def test_a_single_device_is_not_needed_and_changes_nothing():
    """Without it, the former model took the losses inside a node for none, and its interval was far too narrow."""
    without = predict(SERIES[1:], "4n8d")
    assert without == predict(SERIES, "4n8d")


def test_superlinear_speedup_is_not_extrapolated():
    actual = predict(a_series({"1n1d": 0.1, "1n8d": 0.105, "2n8d": 0.1}), "4n8d")
    assert actual.step_time >= 0.1


def test_the_launcher_plays_no_part():
    on_slurm = predict(a_series({"1n8d@slurm": 0.105, "2n8d@slurm": 0.115}), "4n8d")
    assert on_slurm.throughput == predict(SERIES[1:], "4n8d").throughput


def test_measurements_that_contradict_each_other_are_noted():
    """Two nodes that are five times as fast as one are no reason for a narrow interval without a word."""
    actual = predict(a_series({"1n8d": 0.5, "2n8d": 0.2}), "4n8d")
    assert actual.notes[0].startswith("From 1n8d to 2n8d each doubling makes the step 60% shorter")
    assert not any(
        "shorter" in note for note in predict(a_series({"1n8d": 0.1, "2n8d": 0.096}), "4n8d").notes
    )


@pytest.mark.parametrize(
    ("repeats", "note"),
    [
        ((300.0, 320.0, 200.0), "The repeats of 1n8d have a standard deviation of 23.5%"),
        ((300.0,), "1n8d was measured once"),
        ((300.0, 301.0, 299.0), None),
        ((), None),
    ],
)
def test_noise_that_the_interval_does_not_cover_is_noted(repeats, note):
    first, second = a_series({"1n8d": 0.1, "2n8d": 0.105})
    notes = predict([attrs.evolve(first, repeats=repeats), second], "4n8d").notes
    assert [text.startswith(note) for text in notes] == ([True] if note else [])


def test_series_of_the_reference_is_left_out_when_it_is_predicted():
    table = REFERENCE.filter(framework="mxnet", implementation="gluon-nlp", batch_size=64)
    series = table.filter(precision="fp32", topology=("1n1d", "1n8d", "2n8d"))
    own = {(figure.source.document, figure.source.line) for figure in table.filter(precision="fp32")}
    rest = [f for f in REFERENCE if (f.source.document, f.source.line) not in own]
    assert predict(series, "4n8d") == analysis.predict(series, "4n8d", reference=rest)


@pytest.mark.parametrize(
    ("steps", "wanted", "output"),
    [
        ({"1n1d": 0.1, "1n8d": 0.1}, "4n8d", "such as 1n8d and 2n8d, must be measured"),
        ({"1n1d": 0.1, "2n8d": 0.1}, "4n8d", "such as 1n8d and 2n8d, must be measured"),
        ({"1n4d": 0.1, "2n4d": 0.1}, "4n8d", "two numbers of nodes with 8 devices each"),
        ({"1n8d": 0.1}, "1n16d", "such as 1n1d and 1n2d"),
        ({"1n8d": 0.1, "2n8d": 0.1}, "2n8d", "not larger than what was measured"),
    ],
)
def test_too_little_is_refused(steps, wanted, output):
    with pytest.raises(AnalysisError, match=output):
        predict(a_series(steps), wanted)


def test_several_series_are_refused():
    with pytest.raises(AnalysisError, match="2 series, not one: they differ in precision"):
        predict([*SERIES, *a_series({"1n1d": 0.1}, precision="tf32")], "4n8d")
    with pytest.raises(AnalysisError, match="twice"):
        predict([*SERIES, *a_series({"1n1d": 0.2})], "4n8d")
    with pytest.raises(AnalysisError, match="nothing to predict from"):
        predict([], "4n8d")
    with pytest.raises(AnalysisError, match="at least 19 are needed"):
        analysis.predict(SERIES, "4n8d", reference=SERIES)
