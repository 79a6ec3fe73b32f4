"""torch across nodes: every integrity verdict passes, and the loss takes the course that it takes on one machine."""

from __future__ import annotations

import pytest

from dlperf_sdk import run
from dlperf_sdk.harness.in_process import SMALL

SHORT = {"batch_size": 2, "warmup": 1, "steps": 3, "repeats": 1}


@pytest.mark.framework
@pytest.mark.timeout(400)
@pytest.mark.parametrize(("launcher", "model"), [("mpi", "resnet50"), ("slurm", "bert-base")])
def test_over_nodes_it_follows_the_same_course_as_on_one_machine(bench, tmp_path, launcher, model):
    """ResNet-50 on four nodes of Slurm is in `test_campaign_in_allocation`."""
    bench._allocate()
    options = SMALL[model]
    here = run("torch", model, topology="2n1d", store=tmp_path / "here", options=options, **SHORT)
    assert here.failure is None, here.failure
    case = {**SHORT, "options": {**options, **bench.cluster.options(launcher)}}
    there = run("torch", model, topology=f"2n1d@{launcher}", store=tmp_path / "there", **case)
    assert there.failure is None, there.failure
    assert not [v for v in there.verdicts if v.kind == "integrity" and v.outcome == "fail"], there.verdicts
    assert [node["network"]["interface"] for node in there.hardware] == ["eth0"] * len(there.hardware)
    for mine, theirs in zip(there.repeats[0].records, here.repeats[0].records, strict=True):
        assert mine.replicas[0].canonical_losses == pytest.approx(
            theirs.replicas[0].canonical_losses, rel=1e-5
        )
        assert mine.facts["transport"] == "gloo"
