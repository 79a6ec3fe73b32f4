"""torch across nodes: every integrity verdict passes, and the loss takes the course that it takes on one machine."""

from __future__ import annotations

import pytest

from dlperf_sdk import run

CASE = {
    "batch_size": 2,
    "warmup": 1,
    "steps": 3,
    "repeats": 1,
    "options": {"image_size": 32, "num_classes": 10},
}


@pytest.mark.framework
@pytest.mark.timeout(400)
@pytest.mark.parametrize(("shape", "engine"), [("2n1d", "mpi"), ("4n1d", "slurm")])
def test_resnet50_over_nodes_follows_the_same_course_as_on_one_machine(bench, tmp_path, shape, engine):
    bench._allocate()
    here = run("torch", "resnet50", topology=shape, store=tmp_path / "here", **CASE)
    assert here.failure is None, here.failure
    case = {**CASE, "options": {**CASE["options"], **bench.cluster.options(engine)}}
    there = run("torch", "resnet50", topology=f"{shape}@{engine}", store=tmp_path / "there", **case)
    assert there.failure is None, there.failure
    assert not [v for v in there.verdicts if v.kind == "integrity" and v.outcome == "fail"], there.verdicts
    assert [node["network"]["interface"] for node in there.hardware] == ["eth0"] * len(there.hardware)
    for mine, theirs in zip(there.repeats[0].records, here.repeats[0].records, strict=True):
        assert mine.replicas[0].canonical_losses == pytest.approx(
            theirs.replicas[0].canonical_losses, rel=1e-5
        )
        assert mine.facts["transport"] == "gloo"
