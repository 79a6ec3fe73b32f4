"""Campaigns through launchers: what a killed controller left in a queue is ended by the next, and a lost node or rank
is one case's, not the campaign's."""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from dlperf_sdk import Matrix, campaign, hookimpl
from dlperf_sdk.campaigns import planning
from dlperf_sdk.campaigns.campaign import make_campaign
from dlperf_sdk.campaigns.campaign_directory import create_campaign
from dlperf_sdk.campaigns.journal import Journal
from dlperf_sdk.registry.plugins import Registry

TOY = {
    "framework": "faulty",
    "model": "linear",
    "batch_size": 4,
    "warmup": 2,
    "steps": 50,
    "repeats": 1,
    "python": sys.executable,
}


def resuming(directory):
    """A controller, as a shell starts it."""
    command = [sys.executable, "-m", "dlperf_sdk", "campaign", "resume", str(directory), "--allow", "python"]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)


def jobs(stamp):
    """Number → facts of the jobs of a campaign, over or not."""
    command = ["scontrol", "--oneliner", "show", "jobs"]
    message = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    facts = [dict(re.findall(r"(\S+?)=(\S*)", line)) for line in message if f"JobName=dlperf-{stamp}" in line]
    return {fact["JobId"]: fact for fact in facts}


@pytest.mark.parametrize("state", ["RUNNING", "PENDING"])
def test_queued_jobs_of_a_killed_controller_are_canceled_by_the_next(bench, state):
    """Four nodes, of which each job takes two: nothing but the next controller keeps a second one from running."""
    directory = bench.folder / "campaign"
    fields = {**TOY, "topology": "2n1d@slurm", "options": {"fault": "slow"}}
    what = make_campaign(Matrix(fields=fields, axes={"seed": [1, 2]}))
    stamp, entries = planning.plan_campaign(what, Registry())
    campaign = create_campaign(directory, what, entries, stamp)
    if state == "PENDING":
        bench._allocate()
        bench.leave()
    with resuming(directory) as controller:
        while state not in [item["JobState"] for item in jobs(stamp).values()]:
            assert controller.poll() is None, controller.stderr.read()
            time.sleep(0.1)
        if state == "RUNNING":
            while not any(node.processes("agent --case") for node in bench.cluster.nodes):
                time.sleep(0.1)
        controller.kill()
    (left,) = jobs(stamp)
    time.sleep(1.0)
    assert jobs(stamp)[left]["JobState"] == state, "it has ended with its controller"
    with resuming(directory) as controller:
        output = []
        for line in controller.stderr:
            output.append(line)
            if "left in the queue" in line:
                break
        subprocess.run(["scancel", f"--name={bench.id}"], check=True)  # the allocation, if there is one
        output += controller.stderr
    assert controller.returncode == 0, "".join(output)
    assert f"Ending what an earlier controller left in the queue: Slurm job {left} ({state}).\n" in output
    assert jobs(stamp)[left]["JobState"] == "CANCELLED"
    ended = [
        (entry["case"], entry["attempt"], entry["status"])
        for entry in Journal(directory / "journal.jsonl").read()
        if entry["event"] == "attempt-ended"
    ]
    assert sorted(ended) == sorted((case.id, 1, "ok") for case in campaign.cases)
    # Slurm tells the time in seconds, as text that sorts; a job that never ran starts and ends as it is cancelled.
    course = sorted((item["StartTime"], item["EndTime"]) for item in jobs(stamp).values())
    assert len(course) == 3
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(course)), course


class Saboteur:
    """Kills the agent of a node when the case with the fault `stubborn` is in its window."""

    def __init__(self, node):
        self.node, self.case, self.killed = node, "", []

    @hookimpl
    def dlperf_run_started(self, run_id, plan):
        if plan.spec.options["fault"] == "stubborn":
            self.case = run_id

    @hookimpl
    def dlperf_step_progress(self, run_id, phase):
        if run_id == self.case and phase == "measure" and not self.killed:
            self.killed = self.node.processes("agent --case")
            for pid in self.killed:
                os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("launcher", ["ssh", "mpi"])
def test_campaign_continues_after_a_killed_rank_and_a_lost_node(bench, launcher):
    """In one campaign, before a case that ends well; none is tried again here."""
    options = bench.cluster.options(launcher)
    faults = [{"fault": fault, "rank": 1, **options} for fault in ("sigkill", "stubborn", "none")]
    saboteur = Saboteur(bench.cluster.nodes[1])
    outcome = campaign(
        Matrix(fields={**TOY, "topology": f"2n1d@{launcher}"}, axes={"options": faults}),
        bench.folder / "campaign",
        observers=[saboteur],
        interleave=False,
        retry={"crashed": 0, "lost-node": 0},
    )
    assert saboteur.killed
    results = {result.spec.options["fault"]: result for result in outcome.results()}
    assert {fault: result.status for fault, result in results.items()} == {
        "sigkill": "crashed",
        "stubborn": "lost-node",
        "none": "ok",
    }
    killed, lost = results["sigkill"].failure, results["stubborn"].failure
    assert (killed.node, killed.rank) == (1, 1)
    assert (lost.node, "n2" in lost.message) == (1, True), lost
    assert outcome.exit_code == 5
