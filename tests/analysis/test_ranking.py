"""Rankings of frameworks: equal work only, everything else named, and nothing ranked that is alone."""

from __future__ import annotations

import attrs
import pytest
from result_samples import a_result

from dlperf_sdk.analysis.ranking import rankings, unrivaled
from dlperf_sdk.registry.plugins import Registry


def result(framework: str, rate: float, **fields):
    created = a_result(fields={"framework": framework, "topology": "1n1d", **fields})
    throughput = attrs.evolve(
        created.metric("throughput"), value=rate, repeats=tuple(rate + n for n in range(7))
    )
    return attrs.evolve(created, metrics=(throughput,))


def test_run_of_another_precision_is_excluded_and_named():
    results = [
        result("torch", 100),
        result("oneflow", 120),
        result("tensorflow", 900, precision="amp-bf16"),
        result("mxnet", 800, batch_size=64),
    ]
    (ranking,) = rankings(results)
    assert [entry.facts["framework"] for entry in ranking.entries] == ["oneflow", "torch"]
    (excluded,) = ranking.excluded
    assert [entry.facts["framework"] for entry in excluded.cases] == ["tensorflow"]
    assert excluded.differences == (("precision", "amp-bf16"),)


@pytest.mark.parametrize(
    "fields",
    [{"data": "synthetic-host"}, {"topology": "1n2d", "strategy": "independent"}, {"model": "vgg16"}],
)
def test_other_data_independent_replicas_and_other_models_are_not_ranked(fields):
    alike = {"topology": fields.get("topology", "1n1d")}
    (ranking,) = rankings(
        [result("torch", 100, **alike), result("oneflow", 90, **alike), result("mxnet", 900, **fields)]
    )
    assert [entry.facts["framework"] for entry in ranking.entries] == ["torch", "oneflow"]


def test_of_each_framework_the_fastest_case_is_ranked():
    results = [result("torch", 100), result("torch", 150, compiler="inductor"), result("oneflow", 120)]
    (ranking,) = rankings(results)
    assert [entry.throughput for entry in ranking.entries] == [150, 120]
    assert ranking.comparison.ratio == 1.25
    assert ranking.comparison.significant


def test_single_framework_is_not_called_fastest():
    assert rankings([]) == ()
    assert rankings([result("torch", 100), result("torch", 110, batch_size=64)]) == ()


def test_a_group_with_one_framework_has_one_entry_and_is_in_no_ranking():
    results = [
        result("torch", 100),
        result("oneflow", 120),
        result("torch", 110, batch_size=64),
        result("torch", 130, batch_size=64, compiler="inductor"),
    ]
    (alone,) = unrivaled(results)
    assert [(case.batch_size, case.throughput) for case in alone.entries] == [(64, 130)]
    assert len(rankings(results)) == 1
    # With one framework and implementation there is nothing to rank, and no rival to lack.
    assert unrivaled([result("torch", 100)]) == ()


def test_published_figures_of_unequal_gradient_clipping_are_not_ranked_together():
    figures = Registry().collection("dlperf-v1.0").figures
    chosen = figures.filter(model="bert-base", topology="4n8d", batch_size=64, precision="amp-fp16")
    by_clipping = {ranking.facts.get("clip_norm"): ranking for ranking in rankings(chosen)}
    assert [(entry.facts["framework"], entry.throughput) for entry in by_clipping[0.0].entries] == [
        ("mxnet", 11269.14),
        ("oneflow", 11195.72),
    ]
    (unstated,) = (by_clipping[None],)
    named = {entry.throughput for group in unstated.excluded for entry in group.cases}
    assert named >= {11269.14, 11195.72}


def test_the_ranking_of_most_frameworks_on_most_devices_comes_first():
    figures = Registry().collection("dlperf-v1.0").figures
    first = rankings(figures)[0]
    assert (first.facts["topology"], len(first.entries)) == ("4n8d", 5)
    assert (first.entries[0].facts["framework"], first.entries[0].throughput) == ("oneflow", 12411.97)


def test_a_fact_that_no_case_of_a_ranking_states_is_named_if_another_case_of_the_model_states_it():
    ranked = rankings(Registry().collection("dlperf-v1.0").figures)
    unstated = {
        (ranking.facts["model"], ranking.facts.get("clip_norm")): ranking.unstated for ranking in ranked
    }
    assert unstated == {("resnet50", None): (), ("bert-base", 0.0): (), ("bert-base", None): ("clip_norm",)}
