"""Events of an agent whose values are of other kinds than they should be."""

from __future__ import annotations

import pytest

from dlperf_sdk.errors import DocumentError
from dlperf_sdk.results.agent_events import attempt_outcome, failure_from, nodes_from


@pytest.mark.parametrize("kind", [["timeout"], {"timeout": 1}, 3, None])
def test_a_kind_of_failure_that_is_no_text_is_refused(kind):
    plain = {"kind": kind, "message": "It failed."}
    for read in (failure_from, lambda failure: attempt_outcome({"failure": failure})):
        with pytest.raises(DocumentError, match="The kind of the failure is"):
            read(plain)


def test_an_unknown_kind_of_failure_is_a_crash():
    assert failure_from({"kind": "melted", "message": "It failed."}).kind == "crashed"


def test_a_fact_of_a_node_may_be_null():
    nodes = [{"host": None, "cpu": None}, {"cpu": {"model": None}}]
    assert nodes_from({"nodes": nodes}, 2) == tuple(nodes)


@pytest.mark.parametrize("cpu", [[], "Xeon", {"model": 3}])
def test_a_malformed_cpu_is_refused(cpu):
    with pytest.raises(DocumentError, match="cpu"):
        nodes_from({"nodes": [{"cpu": cpu}]}, 1)
