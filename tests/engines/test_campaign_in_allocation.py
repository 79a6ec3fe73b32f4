"""A campaign inside one allocation: torch beside toys, one case that fails, and a controller that is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from dlperf_sdk import Matrix, resume
from dlperf_sdk.campaigns import planning
from dlperf_sdk.campaigns.campaign import make_campaign
from dlperf_sdk.campaigns.campaign_directory import create_campaign
from dlperf_sdk.campaigns.journal import Journal
from dlperf_sdk.registry.plugins import Registry

BERT = {
    "layers": 1,
    "hidden_size": 64,
    "heads": 2,
    "intermediate_size": 128,
    "sequence_length": 16,
    "predictions_per_sequence": 2,
    "vocabulary_size": 512,
}
MATRIX = Matrix(
    fields={"batch_size": 2, "warmup": 1, "steps": 3, "repeats": 2},
    include=[
        {
            "framework": "torch",
            "model": "resnet50",
            "topology": "4n1d@slurm",
            # Not 32: batch norm over two values would turn the rounding of a sum over four replicas into another loss.
            "options": {"image_size": 64, "num_classes": 10},
        },
        {"framework": "torch", "model": "bert-base", "topology": "2n1d@slurm", "options": BERT},
        {"framework": "numpy", "model": "linear", "topology": "4n1d@slurm"},
        {
            "framework": "faulty",
            "model": "linear",
            "topology": "2n1d@slurm",
            "options": {"fault": "sigkill", "rank": 1},
        },
    ],
)
CONTROLLER = "import sys; from dlperf_sdk import resume; sys.exit(resume(sys.argv[1]).exit_code)"


def ended(directory):
    """Which attempts of which cases have ended, as the journal has them."""
    entries = Journal(directory / "journal.jsonl").read()
    return [(entry["case"], entry["attempt"]) for entry in entries if entry["event"] == "attempt-ended"]


@pytest.mark.framework
@pytest.mark.timeout(900)
def test_a_campaign_in_one_allocation_loses_nothing_to_a_killed_rank_and_a_killed_controller(bench):
    bench._allocate()
    allocation, directory = os.environ["SLURM_JOB_ID"], bench.folder / "campaign"
    what, registry = make_campaign(MATRIX, seed=3), Registry()
    stamp, entries = planning.plan_campaign(what, registry)
    create_campaign(directory, what, entries, stamp)
    with subprocess.Popen([sys.executable, "-c", CONTROLLER, str(directory)]) as controller:
        while len(ended(directory)) < 3:
            assert controller.poll() is None, "it has not come so far"
            time.sleep(0.05)
        controller.kill()
    before = ended(directory)
    assert len(before) < 7, "nothing was left to do"
    outcome = resume(directory)
    results = {(result.spec.framework, result.spec.model): result for result in outcome.results()}
    assert set(results) == {(case["framework"], case["model"]) for case in MATRIX.include}
    faulty = results.pop(("faulty", "linear"))
    assert (faulty.status, faulty.failure.node, faulty.failure.rank) == ("crashed", 1, 1)
    for name, result in results.items():
        assert result.failure is None, (name, result.failure)
        assert [repeat.attempt for repeat in result.repeats] == [1, 2], name
        assert not [v for v in result.verdicts if v.kind == "integrity" and v.outcome == "fail"], name
        assert result.parity.outcome == "pass", (name, result.parity)
        nodes = 2 if name[1] == "bert-base" else 4
        assert [node["network"]["interface"] for node in result.hardware] == ["eth0"] * nodes, name
    assert results["torch", "bert-base"].repeats[0].records[0].facts["transport"] == "gloo"
    # Each attempt once, those from before the kill among them, and all of it in the one allocation.
    assert len(set(ended(directory))) == len(ended(directory))
    assert ended(directory)[: len(before)] == before
    message = subprocess.run(["squeue", "-h", "-o", "%i"], capture_output=True, text=True, check=True)
    assert message.stdout.split() == [allocation]
