"""An agent's introduction: a node that cannot run the case says why."""

from __future__ import annotations

import errno
import os

import pytest

from dlperf_sdk.planning.plan import make_plan
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.worker.agent import node_check
from dlperf_sdk.worker.agent.node_check import introduce


def test_a_damaged_bundle_makes_a_node_unfit(tmp_path):
    """Without an answer the coordinator would wait for the node until the deadline."""
    bundle = tmp_path / "bundle.pyz"
    bundle.write_bytes(b"PK\3\4 damaged")
    plan = make_plan(RunSpec(framework="numpy", model="linear", repeats=1), Registry())
    request = plan.request("damaged", ("python3",), {}, {"source": "synthetic"})
    hello = introduce(request, str(bundle), str(tmp_path), "127.0.0.1").hello
    assert hello["unfit"]["kind"] == "unavailable"
    assert "not a zip file" in hello["unfit"]["message"]


@pytest.fixture
def request_of_case():
    plan = make_plan(RunSpec(framework="numpy", model="linear", repeats=1), Registry())
    return plan.request("case", ("python3",), {}, {"source": "synthetic"})


def test_a_node_without_descriptors_names_the_remedy(request_of_case, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(node_check, "unpack", fail)
    unfit = introduce(request_of_case, "bundle", str(tmp_path), "127.0.0.1").hello["unfit"]
    assert unfit["message"].startswith(
        "lacks a resource. Its agent had no file descriptor left: Too many open files"
    )
    assert "Raise `ulimit -n`, which is" in unfit["message"]
    monkeypatch.setattr(node_check, "_chosen", fail)
    unprepared = node_check.choose_resources(request_of_case, 1, {}, ())
    assert "Raise `ulimit -n`, which is" in unprepared["message"]
