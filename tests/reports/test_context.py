"""Context in which results differ."""

from __future__ import annotations

import attrs
from result_samples import a_result, fact

from dlperf_sdk.reports.context import differing_context
from dlperf_sdk.reports.html import blocks_of_results
from dlperf_sdk.reports.markdown import text_of
from dlperf_sdk.reports.results_table import pages
from dlperf_sdk.spec.secret_values import conceal


def plain(blocks):
    """The blocks as Markdown, without its escapes."""
    return text_of(blocks).replace("\\", "")


def versions(result, version, variables):
    facts = [fact("framework_version", "context", version), fact("thread_variables", "context", variables)]
    return attrs.evolve(result, facts=(*result.facts, *facts))


def test_a_version_and_a_variable_that_differ_are_named():
    first = versions(a_result(id="20250131T101502Z-a"), "2.12.0", {"OMP_NUM_THREADS": "2", "KMP": "1"})
    second = versions(a_result(id="20250131T101503Z-b"), "2.13.0", {"OMP_NUM_THREADS": "4", "KMP": "1"})
    assert differing_context([first, second]) == [
        ("framework version 2.12.0", "OMP_NUM_THREADS 2"),
        ("framework version 2.13.0", "OMP_NUM_THREADS 4"),
    ]
    text = plain(pages([first, second]))
    assert "✓ ok [1]" in text and "✓ ok [2]" in text
    assert "[2] framework version 2.13.0; OMP_NUM_THREADS 4" in text
    page = plain(blocks_of_results([first, second]))
    assert "differs in" in page and "framework version 2.12.0; OMP_NUM_THREADS 2" in page


def test_equal_results_and_the_versions_of_two_frameworks_have_no_notes():
    torch = versions(a_result(), "2.13.0", {})
    other = versions(a_result(fields={"framework": "paddle"}), "3.2.0", {})
    assert differing_context([torch, torch, other]) == [(), (), ()]
    assert "differs in" not in plain(blocks_of_results([torch, other]))


def test_settings_and_machines_are_compared_between_frameworks():
    torch = a_result(fields={"protocol": "quick"})
    machine = {"host": "n7", "cpu": {"model": "Xeon", "usable": 8, "logical": 8}}
    other = a_result(fields={"framework": "paddle"}, hardware=(machine,))
    (first, _), (second, xeon) = differing_context([torch, other])
    assert (first, second) == ("protocol quick", "protocol dlperf-v1") and xeon.startswith("Xeon")
    bert = a_result(fields={"model": "bert-base"})
    assert differing_context([torch, bert]) == [(), ()]


def test_machines_labels_and_secrets_are_named():
    first = a_result(fields={"labels": {"commit": "1f3a"}})
    machine = {"host": "n7", "cpu": {"model": "Xeon", "usable": 8, "logical": 8}}
    second = a_result(fields={"labels": {"commit": "2c4b"}}, hardware=(machine,))
    hidden = [fact("env", "context", {"HF_TOKEN": conceal("HF_TOKEN", value)}) for value in ("one", "two")]
    results = [
        attrs.evolve(result, facts=(*result.facts, env))
        for result, env in zip((first, second), hidden, strict=True)
    ]
    (_, commit, _), (token, _, xeon) = differing_context(results)
    assert (token, commit) == ("HF_TOKEN (secret)", "commit 1f3a")
    assert xeon.startswith("Xeon, 8 of 8 processors") and "n7" not in xeon
