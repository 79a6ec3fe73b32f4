"""The cases that a ranking leaves out, as text."""

from __future__ import annotations

import attrs
import pytest
from result_samples import a_result

from dlperf_sdk.analysis.ranking import rankings
from dlperf_sdk.reports.exclusions import format_excluded


def result(framework: str, rate: float, **fields: object):
    created = a_result(fields={"framework": framework, "topology": "1n1d", **fields})
    throughput = attrs.evolve(created.metric("throughput"), value=rate, repeats=(rate,) * 7)
    return attrs.evolve(created, metrics=(throughput,))


@pytest.mark.parametrize(("ranked", "excluded"), [("fp32", "fp8"), ("fp8", "fp32"), ("fp8", "fp4")])
def test_a_precision_that_only_a_newer_version_knows_has_a_number_format_of_its_own(ranked, excluded):
    cases = [result(name, 100, precision=ranked) for name in ("torch", "oneflow")]
    (ranking,) = rankings([*cases, result("mxnet", 900, precision=excluded)])
    assert [group.differences for group in ranking.excluded] == [(("precision", excluded),)]
    assert format_excluded(ranking) == ""
