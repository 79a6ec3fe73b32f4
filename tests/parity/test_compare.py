"""Records against a reference: what passes, what fails and how it is named; pure."""

from __future__ import annotations

import math
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from parity_samples import case, fingerprint, record, tolerance, trajectory

from dlperf_sdk.documents.structuring import structure
from dlperf_sdk.errors import DocumentError
from dlperf_sdk.parity.compare import compare
from dlperf_sdk.parity.distance import distance
from dlperf_sdk.parity.record import records_from
from dlperf_sdk.parity.reference import ReferenceCase, Tolerance
from dlperf_sdk.worker import canonical


def compared(documents: list[dict[str, Any]], strategy: str = "all_reduce", **changes: Any) -> Any:
    tolerated = Tolerance(**tolerance(**changes))
    return compare(
        records_from(documents), structure(case(), ReferenceCase), tolerated, strategy, len(documents)
    )


def test_correct_trajectory_passes() -> None:
    actual = compared([record()])
    assert (actual.outcome, actual.losses, actual.updates) == ("pass", (0.0, 0.0, 0.0), 0.0)
    assert actual.differing == actual.follows == ()


def test_two_replicas_must_follow_the_synchronized_pair() -> None:
    pair = [record(0, **trajectory(2.0)), record(1, **trajectory(2.5))]
    assert compared(pair).outcome == "pass"
    assert compared(pair, "independent").outcome == "fail"
    alone = [record(0, **trajectory(1.0)), record(1, **trajectory(1.5))]
    assert compared(alone, "independent").outcome == "pass"
    actual = compared(alone)
    assert actual.outcome == "fail"
    assert actual.follows == ("gradients that do not meet: each replica trains alone",)


def test_every_even_number_of_replicas_has_a_reference() -> None:
    four = [record(i, **trajectory((2.0, 2.5)[i % 2], updates=i < 2)) for i in range(4)]
    assert compared(four).outcome == "pass"
    four[3]["replicas"][0]["losses"][2] *= 1.01
    assert compared(four).outcome == "fail"


@pytest.mark.parametrize(
    ("replicas", "strategy", "outcome"),
    [(3, "all_reduce", "inconclusive"), (2, "parameter_server_async", "not-applicable")],
)
def test_missing_trajectory_is_reported(replicas: int, strategy: str, outcome: str) -> None:
    actual = compared([record(i) for i in range(replicas)], strategy)
    assert actual.outcome == outcome
    assert actual.detail


def test_a_case_without_a_pair_judges_no_pair() -> None:
    only = structure(case(pair=[]), ReferenceCase)
    actual = compare(records_from([record(0), record(1)]), only, Tolerance(**tolerance()), "all_reduce", 2)
    assert actual.outcome == "inconclusive"


def test_a_mistake_is_named() -> None:
    actual = compared([record(0, **trajectory(1.1))])
    assert actual.outcome == "fail"
    assert actual.follows == ("a tenth too much",)
    assert "follows the trajectory of: a tenth too much" in actual.detail
    assert actual.differing == ("w", "b", "bn.running_mean")
    pair = [record(0, **trajectory(2.4)), record(1, **trajectory(3.0))]
    assert compared(pair).follows == ("a fifth too much",)


def test_unknown_deviation_is_not_named_as_a_known_mistake() -> None:
    actual = compared([record(0, **trajectory(1.2))])
    assert (actual.outcome, actual.follows) == ("fail", ())
    assert "follows" not in actual.detail


@pytest.mark.parametrize("where", ["losses", "updates", "running_means"])
@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_non_finite_losses_never_pass(where: str, value: str) -> None:
    document = record()
    replica = document["replicas"][0]
    if where == "losses":
        replica["losses"][1] = value
    else:
        name = next(iter(replica[where]))
        replica[where][name] = [value] * 9
    actual = compared([document])
    assert actual.outcome == "fail"
    assert actual.follows == ()


def test_one_parameter_is_enough_to_fail_and_its_noise_to_be_spared() -> None:
    document = record()
    updates = document["replicas"][0]["updates"]
    updates["w"] = fingerprint(0.3 * 1.005, 0.1 * 1.005)
    assert compared([document]).differing == ("w",)
    document = record()
    document["replicas"][0]["updates"]["b"] = fingerprint(0.0, 0.2 * 1.005)  # ten times its noise is 1e-2
    assert compared([document]).outcome == "pass"


def test_running_means_count_unless_a_step_was_skipped() -> None:
    document = record()
    document["replicas"][0]["running_means"]["bn.running_mean"] = fingerprint(4.5, -4.5)
    actual = compared([document])
    assert (actual.outcome, actual.differing) == ("fail", ("bn.running_mean",))
    assert "running means" in actual.detail
    document["skipped_steps"] = 1
    assert compared([document]).outcome == "pass"


def test_a_precision_must_be_neither_too_far_nor_too_close() -> None:
    bounds = {"losses": 0.1, "updates": 0.2, "means": 0.1, "least": 1e-3, "parameter": None}
    too_close = compared([record()], **bounds)
    assert too_close.outcome == "fail"
    assert "it was not in effect" in too_close.detail
    near = trajectory()
    near["running_means"] = {"bn.running_mean": fingerprint(0.5 * 1.01, -0.5)}
    assert compared([record(0, **near)], **bounds).outcome == "pass"
    near["running_means"] = {"bn.running_mean": fingerprint(0.5 * 1.5, -0.5)}
    assert "running means deviate by" in compared([record(0, **near)], **bounds).detail
    assert compared([record(0, **trajectory(1.5))], **bounds).outcome == "fail"


@pytest.mark.parametrize(
    ("change", "output"),
    [
        (lambda r: r["updates"].pop("b"), "gives no parameter b"),
        (lambda r: r["updates"].update(c=fingerprint(1, 1)), "a parameter c, which"),
        (lambda r: r["running_means"].clear(), "gives no running mean bn.running_mean"),
        (lambda r: r["losses"].pop(), "2 losses instead of 3"),
        (lambda r: r.update(index=1), r"replicas \[1\]"),
    ],
)
def test_uncomparable_parts_are_named(change: Any, output: str) -> None:
    document = record()
    change(document["replicas"][0])
    actual = compared([document])
    assert actual.outcome == "fail"
    import re

    assert re.search(output, actual.detail), actual.detail


def test_parameters_are_compared_in_the_models_order() -> None:
    document = record()
    replica = document["replicas"][0]
    replica["updates"] = dict(reversed(replica["updates"].items()))
    assert "where the reference has the parameter w, the trainer gives b" in compared([document]).detail


def test_replicas_that_end_apart_fail_whatever_their_losses_are() -> None:
    pair = [record(0, **trajectory(2.0)), record(1, **trajectory(2.5))]
    pair[1]["replicas"][0]["digest"] = "other"
    actual = compared(pair)
    assert actual.outcome == "fail"
    assert "differ from each other" in actual.detail
    assert actual.losses == (0.0, 0.0, 0.0), "the table shows the losses all the same"


def test_rounding_error_is_stated_in_units_of_rounding() -> None:
    """An update that is zero but for rounding is off by billions, relatively: that says nothing to anybody."""
    noise = {"b": 5e8}
    nothing = fingerprint(0.0, 2e-10)
    alone = [{**trajectory(), "updates": {"w": fingerprint(0.3, 0.1), "b": nothing}}]
    of_case = structure(case(noise=noise, alone=alone, pair=[], mistakes=[]), ReferenceCase)
    document = record()
    document["replicas"][0]["updates"]["b"] = fingerprint(0.0, 0.8)
    actual = compare(records_from([document]), of_case, Tolerance(**tolerance()), "all_reduce", 1)
    assert actual.outcome == "pass", "within ten times what rounding does"
    document["replicas"][0]["updates"]["b"] = fingerprint(0.0, 2.4)
    actual = compare(records_from([document]), of_case, Tolerance(**tolerance()), "all_reduce", 1)
    assert "b the most: by 24 times what rounding to float32 does to it" in actual.detail
    document["replicas"][0]["updates"]["w"] = fingerprint(3.0, 1.0)
    actual = compare(records_from([document]), of_case, Tolerance(**tolerance()), "all_reduce", 1)
    assert "2 deviate too far, w the most: by 9" in actual.detail


def test_a_mistake_that_leaves_an_update_out_is_recognized_through_the_rounding() -> None:
    """What is left of the update is as small as rounding: relative to itself it could deviate by anything."""
    left_out = {**trajectory(1.1), "updates": {"w": fingerprint(0.33, 0.1), "b": fingerprint(0.0, 1e-4)}}
    mistake = {"name": "no b", "topology": "alone", "replicas": [left_out]}
    document = record(**left_out)
    document["replicas"][0]["updates"]["b"] = fingerprint(2e-5, 1.2e-4)
    of_case = structure(case(mistakes=[mistake]), ReferenceCase)
    actual = compare(records_from([document]), of_case, Tolerance(**tolerance()), "all_reduce", 1)
    assert actual.follows == ("no b",)


def test_two_records_of_one_rank_are_refused() -> None:
    with pytest.raises(DocumentError, match="the same rank"):
        records_from([record(), record()])


@given(st.floats(1e-9, 0.5), st.integers(0, 2**31), st.sampled_from([(3,), (40, 7), (1000,)]))
def test_fingerprint_estimates_the_distance_of_two_arrays(
    relative: float, seed: int, shape: tuple[int, ...]
) -> None:
    """To a factor of four, and from below never by more than the norms' own difference allows."""
    random = numpy.random.RandomState(seed)
    right = random.standard_normal(shape)
    error = random.standard_normal(shape)
    wrong = right + error * (relative * numpy.linalg.norm(right) / numpy.linalg.norm(error))
    estimate = distance(canonical.fingerprint("w", wrong), canonical.fingerprint("w", right))
    assert relative / 6 < estimate < relative * 4


def test_a_fingerprint_of_nothing_is_zero_and_of_nan_infinitely_far() -> None:
    zeros = canonical.fingerprint("w", numpy.zeros((4, 4), "float32"))
    assert zeros == [0.0] * 9
    assert distance(zeros, zeros) == 0.0
    assert distance((math.nan,) * 9, tuple(canonical.fingerprint("w", numpy.ones(3, "float32")))) == math.inf


def test_a_fingerprint_is_the_same_however_large_the_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    values = numpy.random.RandomState(0).standard_normal(1000).astype("float32")
    whole = canonical.fingerprint("w", values)
    monkeypatch.setattr(canonical, "_CHUNK", 64)
    assert canonical.fingerprint("w", values) == pytest.approx(whole, rel=1e-12)
    assert canonical.fingerprint("v", values)[1:] != whole[1:]
