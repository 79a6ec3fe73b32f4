"""The analysis: ratios with everything else equal, honest about small samples and about what differs."""

import itertools
import math
import random

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from result_samples import a_result, fact

from dlperf_sdk.analysis import Case, cases, compare, effect, efficiency, speedup
from dlperf_sdk.analysis.effects import adjust_effects
from dlperf_sdk.analysis.rank_test import mann_whitney_p, smallest_p
from dlperf_sdk.analysis.significance import sign_test
from dlperf_sdk.errors import AnalysisError, NotComparable, UnknownName
from dlperf_sdk.interfaces.measurer import Metric
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.result import Fact, Verdict
from dlperf_sdk.spec.values import TopologySpec
from dlperf_sdk.worker.estimate import median_interval

ROLES = {
    "framework": "factor",
    "model": "workload",
    "topology": "factor",
    "strategy": "factor",
    "batch_size": "workload",
    "precision": "factor",
    "data": "context",
    "driver": "context",
    "clip_norm": "workload",
    "loss_scale": "factor",
    "compiler": "factor",
}


def a_case(throughput=100.0, repeats=(), topology="1n1d", **facts):
    known = {
        "framework": "torch",
        "model": "resnet50",
        "topology": topology,
        "strategy": "none" if topology == "1n1d" else "all_reduce",
        "batch_size": 32,
        "precision": "fp32",
        "data": "synthetic",
        **facts,
    }
    return Case(
        name=" ".join(map(str, known.values())),
        topology=TopologySpec.parse(topology),
        batch_size=known["batch_size"],
        throughput=throughput,
        unit="img/s",
        repeats=repeats,
        facts=known,
        roles={name: ROLES[name] for name in known},
    )


# -- significance


def test_the_sign_test_is_the_binomial_distribution():
    assert sign_test([2] * 6).p == 2 / 64
    assert sign_test([2] * 5 + [0.5]).p == 2 * 7 / 64
    assert sign_test([2, 0.5]).p == 1
    assert sign_test([1, 1]) == sign_test([1.0, 1.0])
    assert (sign_test([1, 1, 2]).equal, sign_test([1, 1]).p) == (2, 1)
    assert sign_test([2] * 6 + [1] * 3).p == 2 * (1 + 9 + 36 + 84) / 512


@given(st.lists(st.sampled_from([0.5, 1.0, 2.0]), max_size=40))
def test_the_median_s_interval_excludes_one_exactly_where_the_sign_test_rejects(ratios):
    interval = median_interval(ratios)
    assert (sign_test(ratios).p <= 0.05) == (interval is not None and not interval[0] <= 1 <= interval[1])


samples = st.lists(st.integers(1, 5).map(float), min_size=1, max_size=5)


@settings(deadline=None)
@given(samples, samples)
def test_two_sided_p_value_equals_enumeration(a, b):
    """Equal values in the order that says least for a difference, of all their orders."""
    order = range(len(a) + len(b))
    sums = [sum(chosen) for chosen in itertools.combinations(order, len(a))]
    middle = len(a) * (len(order) - 1) / 2
    observed = []
    for tie in ("ab", "ba"):
        pooled = sorted([*((v, tie[0]) for v in a), *((v, tie[1]) for v in b)])
        observed.append(sum(i for i, (_, side) in enumerate(pooled) if side == tie[0]) - middle)
    observed_value = 0 if min(observed) <= 0 <= max(observed) else min(map(abs, observed))
    expected = sum(abs(s - middle) >= observed_value for s in sums) / len(sums)
    assert mann_whitney_p(a, b) == pytest.approx(expected)
    assert mann_whitney_p(a, b) == mann_whitney_p(b, a)


def test_three_repeats_cannot_show_anything():
    assert mann_whitney_p([1, 2, 3], [4, 5, 6]) == smallest_p(3, 3) == 0.1
    assert mann_whitney_p([1, 2, 3, 4], [5, 6, 7, 8]) == pytest.approx(2 / 70)


def test_the_interval_of_a_ratio_covers_it():
    """Skewed noise, as times have; seven repeats. A percentile bootstrap would miss one in seven."""
    draw = random.Random(20)
    held = 0
    for _ in range(1000):
        a = [1 / (1 + draw.expovariate(10)) for _ in range(7)]
        b = [1 / (1 + draw.expovariate(10)) for _ in range(7)]
        actual = compare(a_case(repeats=tuple(a)), a_case(repeats=tuple(b)))
        held += actual.low <= 1 <= actual.high
        assert actual.significant == (not actual.low <= 1 <= actual.high) == (actual.p <= 0.05)
    assert 935 <= held <= 985  # 96.2 % are expected; one that always covers contradicts its test


# -- cases


def test_a_result_is_a_case_as_it_was_observed():
    result = a_result()
    observed = attrs.evolve(
        result,
        facts=tuple(
            fact("layout", "factor", "auto", "nhwc") if f.name == "layout" else f for f in result.facts
        ),
    )
    case = Case.from_source(observed)
    assert case.facts["layout"] == "nhwc"
    assert case.repeats == result.metric("throughput").repeats
    assert case.facts["estimator"] == "elapsed"
    assert cases([case, observed]) == (case, case)


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0, -1.0])
def test_an_impossible_throughput_is_refused(value):
    with pytest.raises(AnalysisError, match="must be finite, and above 0"):
        a_case(value)
    with pytest.raises(AnalysisError):
        Case.from_source(a_result(metrics=(Metric("throughput", "img/s", value),)))


def test_invalid_result_is_not_compared():
    with pytest.raises(AnalysisError, match="has no throughput"):
        Case.from_source(a_result(metrics=()))
    verdicts = (Verdict("replicas-equal", "integrity", "fail", "They are not."),)
    with pytest.raises(AnalysisError, match="does not stand: it failed replicas-equal"):
        Case.from_source(a_result(verdicts=verdicts))


# -- scaling


def test_weak_and_strong_scaling_are_distinguished():
    one, many = a_case(100), a_case(300, topology="1n4d")
    split = a_case(200, topology="1n4d", batch_size=8)
    among = [one, many, split]
    assert speedup(many, among).value == 3
    assert efficiency(many, among).value == 0.75
    assert speedup(split, among, scaling="strong").value == 2
    assert efficiency(split, among, scaling="strong").value == 0.5
    assert speedup(split, among).value is None
    assert speedup(many, among, scaling="strong").value is None
    with pytest.raises(UnknownName, match="Did you mean 'weak'"):
        speedup(many, among, scaling="week")


def test_a_missing_baseline_gives_no_speedup():
    many = a_case(300, topology="1n4d")
    for actual in (speedup(many, [many]), efficiency(many, [many])):
        assert actual.value is None
        assert "There is no 1n1d of this case with the batch per device held" in actual.reason
    assert speedup(many, [a_case(100, precision="amp-bf16"), many]).value is None
    assert "There are 2 1n1d" in speedup(many, [a_case(100), a_case(101, driver="x")]).reason
    two = a_case(150, topology="1n2d")
    assert efficiency(many, [many, two], baseline="1n2d").value == 1


def test_a_speedup_has_an_interval_where_its_repeats_bear_one():
    a = a_case(200, tuple(range(197, 204)), topology="1n2d")
    b = a_case(100, tuple(range(97, 104)))
    actual = efficiency(a, [a, b])
    ratios = sorted(x / y for x in a.repeats for y in b.repeats)
    assert (actual.low, actual.high) == (ratios[8] / 2, ratios[-9] / 2)
    assert speedup(a, [a, attrs.evolve(b, repeats=(1.0,))]).low is None
    assert speedup(b, [b]).value == 1


def test_every_published_speedup_has_its_baseline():
    table = Registry().collection("dlperf-v1.0").figures
    for figure in table:
        actual = speedup(figure, table.filter(framework=figure.framework, model=figure.model))
        assert actual.value is not None, figure
        # All but four; which ones, the list of disagreements says.
        assert actual.value == pytest.approx(figure.printed_speedup, abs=0.11)


# -- effects


def test_effect_pairs_cases_that_are_equal_otherwise():
    many = [
        a_case(speed * (2 if precision == "amp-bf16" else 1), topology=topology, precision=precision)
        for speed, topology in [(100, "1n1d"), (190, "1n2d"), (370, "1n4d")]
        for precision in ("amp-bf16", "fp32")
    ]
    actual = effect(many, factor="precision")
    assert actual.levels == ("amp-bf16", "fp32")
    assert [pair.ratio for pair in actual.pairs] == [2, 2, 2]
    assert actual.holding == ("strategy", "topology")
    assert (actual.median, actual.low, actual.significant, actual.unpaired) == (2, None, None, 0)
    assert effect(many[1:], factor="precision", levels=("amp-bf16", "fp32")).unpaired == 1
    assert effect(many, factor="precision", levels=("fp32", "amp-bf16")).median == 0.5


def test_an_effect_of_one_pair_has_the_test_of_its_repeats():
    pair = a_case(110, tuple(range(107, 114))), a_case(100, tuple(range(97, 104)), precision="tf32")
    actual, compared = effect(pair, factor="precision"), compare(*pair)
    assert (actual.low, actual.high, actual.p) == (compared.low, compared.high, compared.p)
    assert actual.significant
    few = (a_case(110, (109.0, 110.0, 111.0)), a_case(100, (99.0, 100.0, 101.0), precision="tf32"))
    assert effect(few, factor="precision").significant is None


def case_of(framework, precision, batch_size, speed):
    facts = {"framework": framework, "batch_size": batch_size, "precision": precision}
    return a_case(speed, **facts)


def pairs_of_frameworks(ratios):
    """Three pairs of each framework, close to the framework's ratio."""
    return [
        case_of(framework, precision, size, speed)
        for framework, ratio in ratios.items()
        for size, change in ((8, 0.99), (16, 1.0), (32, 1.01))
        for precision, speed in (("tf32", 100 * ratio * change), ("fp32", 100))
    ]


def test_pairs_of_one_framework_are_one_unit():
    """Eighteen pairs of six frameworks are six observations, and nine of three are too few."""
    ratios = {"a": 1.1, "b": 1.2, "c": 1.3, "d": 1.4, "e": 1.5, "f": 1.6}
    actual = effect(pairs_of_frameworks(ratios), factor="precision", levels=("tf32", "fp32"))
    assert actual.units == pytest.approx(ratios) and actual.unit == "framework"
    assert (len(actual.pairs), actual.median) == (18, pytest.approx(1.35))
    assert (actual.low, actual.high, actual.p) == (pytest.approx(1.1), pytest.approx(1.6), 2 / 2**6)
    assert actual.significant
    three = pairs_of_frameworks({"a": 1.1, "b": 1.2, "c": 1.3})
    actual = effect(three, factor="precision", levels=("tf32", "fp32"))
    assert (len(actual.pairs), actual.low, actual.significant) == (9, None, None)
    actual = effect(three, factor="precision", levels=("tf32", "fp32"), pairs_are_units=True)
    assert actual.significant and actual.p == 2 / 2**9
    actual = effect(pairs_of_frameworks({"a": 1.1, "b": 1.2})[1::2], factor="framework", levels=("a", "b"))
    assert (actual.unit, len(actual.units), actual.significant) == ("model", 1, None)


def test_effects_that_are_shown_together_are_adjusted_together():
    """Interval and test still agree, and effects without an interval do not count."""
    repeats = tuple(range(107, 114)), tuple(range(103, 110))
    pair = a_case(110, repeats[0]), a_case(106, repeats[1], precision="tf32")
    alone = effect(pair, factor="precision")
    untested = effect((a_case(110), a_case(100, precision="tf32")), factor="precision")
    assert alone.significant and adjust_effects([alone, untested]) == (alone, untested)
    few, many = (adjust_effects(number * [alone])[0] for number in (2, 9))
    assert few.p == 2 * alone.p and few.significant == (few.low > 1)
    assert few.low <= alone.low and alone.high <= few.high
    assert many.p > 0.05 and many.significant is False and many.low <= 1 <= many.high
    assert adjust_effects([]) == ()


def test_effect_names_confounded_factors():
    table = Registry().collection("tf-cnn-2017").figures
    actual = effect(table, factor="hardware", levels=("Tesla P100", "Tesla K80"), pairs_are_units=True)
    assert actual.confounded == ("machine",)
    assert len(actual.pairs) == 32
    assert actual.unpaired == 0
    assert round(actual.median, 2) == 4.4  # what the source prints
    assert actual.significant


def test_cases_without_pairs_are_refused():
    with pytest.raises(UnknownName, match="Did you mean 'precision'"):
        effect([a_case()], factor="precison")
    with pytest.raises(AnalysisError, match="has 1 values here"):
        effect([a_case()], factor="precision")
    with pytest.raises(AnalysisError, match="must be two of the values"):
        effect([a_case()], factor="precision", levels=("fp32", "tf32"))
    twice = [a_case(driver="1"), a_case(driver="2"), a_case(precision="tf32", driver="1")]
    with pytest.raises(AnalysisError, match="same side of a pair: they differ in driver"):
        effect(twice, factor="precision")
    apart = [
        a_case(),
        a_case(topology="1n2d"),
        a_case(precision="tf32", topology="1n4d"),
        a_case(precision="tf32", topology="1n8d"),
    ]
    with pytest.raises(AnalysisError, match="has a partner"):
        effect(apart, factor="precision")


# -- comparing


def test_two_of_one_workload_are_compared_and_tested():
    a = a_case(110, tuple(range(107, 114)), framework="torch", driver="570")
    b = a_case(100, tuple(range(97, 104)), framework="jax", driver="580")
    actual = compare(a, b)
    ratios = sorted(x / y for x in a.repeats for y in b.repeats)
    assert (actual.ratio, actual.low, actual.high) == (1.1, ratios[8], ratios[-9])
    assert actual.p == pytest.approx(2 / math.comb(14, 7))
    assert actual.significant
    assert actual.factors == ("framework: torch against jax",)
    assert actual.footnotes == ("driver: 570 against 580",)
    assert compare(a_case(repeats=(1.0, 2.0, 3.0)), a_case(repeats=(4.0, 5.0, 6.0))).significant is None
    assert compare(a_case(repeats=(1.0,)), a_case()).p is None


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"model": "resnet50-v1b"}, "model: resnet50 against resnet50-v1b"),
        ({"batch_size": 64}, "batch_size: 32 against 64"),
        ({"data": "images"}, "data: synthetic against images"),
    ],
)
def test_incomparable_cases_are_refused_or_footnoted_on_request(other, reason):
    with pytest.raises(NotComparable, match=reason) as caught:
        compare(a_case(), a_case(**other))
    assert caught.value.reasons == (reason,)
    assert compare(a_case(), a_case(**other), footnoted=True).reasons == (reason,)
    assert compare(a_case(), a_case(**other), factors=tuple(other)).reasons == ()


def test_setting_stated_by_one_case_only_is_a_footnote():
    actual = compare(a_case(clip_norm=1.0), a_case())
    assert actual.footnotes == ("clip_norm: 1.0 against not stated",)


def test_the_published_tables_are_not_all_comparable():
    table = (
        Registry().collection("dlperf-v1.0").figures.filter(model="bert-base", topology="4n8d", batch_size=64)
    )
    clipped = table.get(framework="oneflow", precision="amp-fp16", clip_norm=1.0)
    with pytest.raises(NotComparable) as caught:
        compare(table.get(framework="mxnet", precision="amp-fp16"), clipped)
    assert caught.value.reasons == (
        "clip_norm: 0.0 against 1.0",
        "estimator: mean-of-rates against elapsed",
    )


def two_frameworks(layout="auto"):
    created = []
    for framework, version, chosen in (("torch", "2.4.1", "nchw"), ("tensorflow", "2.16.1", "nhwc")):
        result = a_result(fields={"framework": framework, "topology": "1n1d", "layout": layout})
        facts = [
            attrs.evolve(one, observed=chosen if layout == "auto" else layout)
            if one.name == "layout"
            else one
            for one in result.facts
        ]
        facts.append(Fact("framework_version", "context", None, version))
        created.append(attrs.evolve(result, facts=tuple(facts)))
    return created


def test_version_and_default_layout_belong_to_the_framework():
    torch, tensorflow = two_frameworks()
    compared = compare(torch, tensorflow)
    assert compared.factors == ("framework: torch 2.4.1 (nchw) against tensorflow 2.16.1 (nhwc)",)
    assert (compared.reasons, compared.footnotes) == ((), ())
    estimate = effect([torch, tensorflow], factor="framework")
    assert (len(estimate.pairs), estimate.confounded, estimate.holding) == (1, (), ())


def test_requested_layout_is_a_reason_against_comparison():
    torch, _ = two_frameworks("nchw")
    _, tensorflow = two_frameworks("nhwc")
    assert compare(torch, tensorflow, footnoted=True).reasons == ("layout: nchw against nhwc",)


def test_a_compiler_stated_by_one_case_only_is_a_footnote():
    assert compare(a_case(compiler="xla"), a_case()).footnotes == ("compiler: xla against not stated",)
    assert compare(a_case(compiler="xla"), a_case(compiler="none")).footnotes == ()


def test_each_loss_scale_of_a_mixed_precision_has_a_pair():
    """Only mixed precision scales the loss: this setting belongs to it, and does not split the effect."""
    frameworks = {"torch": ("static", "dynamic"), "paddle": ("dynamic",), "mxnet": (None,)}
    many = [a_case(framework=name) for name in frameworks]
    many += [
        a_case(200.0, framework=name, precision="amp-fp16", **({"loss_scale": scale} if scale else {}))
        for name, scales in frameworks.items()
        for scale in scales
    ]
    actual = effect(many, factor="precision", levels=("amp-fp16", "fp32"))
    assert (len(actual.pairs), actual.unpaired, list(actual.units)) == (4, 0, list(frameworks))
    assert "loss_scale" not in (*actual.holding, *actual.confounded)
    # Of two precisions that both scale the loss, a pair has one scale.
    both = [a_case(precision=name, loss_scale=scale) for name in ("fp16", "amp-fp16") for scale in "ab"]
    assert len(effect(both, factor="precision", levels=("fp16", "amp-fp16")).pairs) == 2
    with pytest.raises(AnalysisError, match="same side of a pair"):
        effect([*many, many[-1]], factor="precision", levels=("amp-fp16", "fp32"))
