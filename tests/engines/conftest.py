"""The cluster: each of pytest's processes makes one of its own, once, and goes through its tests one after another."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from dlperf_sdk import RunSpec
from dlperf_sdk.environments.container import container_prefix
from dlperf_sdk.execution.launch import bundle_metadata
from dlperf_sdk.interfaces.topology import Job
from dlperf_sdk.launchers.events import launch_events
from dlperf_sdk.planning.bundle import build
from dlperf_sdk.planning.plan import make_plan
from dlperf_sdk.registry.plugins import Registry

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent))

import cluster as cluster_module
import fault_outcomes

MISSING = (
    cluster_module.missing()
    if os.environ.get("DLPERF_TEST_ENGINES")
    else "only `make test-engines` makes a cluster"
)


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents and "cluster" in item.fixturenames and MISSING:
            item.add_marker(pytest.mark.skip(reason=f"no cluster: {MISSING}"))


@pytest.fixture(scope="session")
def cluster():
    """Four nodes with real engines."""
    created = cluster_module.Cluster(int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")))
    try:
        created.start()
        before = {name: os.environ.get(name) for name in created.environment}
        os.environ.update(created.environment)
        yield created
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
    finally:
        created.close()


class Bench:
    """Runs toy cases on the cluster, through each launcher, and looks at what is left behind."""

    def __init__(self, cluster, folder, monkeypatch):
        self.cluster, self.folder, self._monkeypatch = cluster, folder, monkeypatch
        self.id = folder.name
        self.outcomes: list[dict] = []
        self._kept: Counter[str] = Counter()

    def events(self, launcher, shape="2n1d", framework="numpy", python=sys.executable, name="", **fields):
        """The events of a case, one by one; closing the iterator ends it. `name` tells cases of one test apart."""
        launcher, _, how = launcher.partition("-")
        if how == "step":
            self._allocate()
        if launcher == "joined":  # the plan is made here, outside of the job
            self._monkeypatch.setenv("RANK", "0")
            self._monkeypatch.setenv("WORLD_SIZE", shape.partition("n")[0])
        hosts = fields.get("options", {}).pop("hosts", "") if launcher == "joined" else ""
        fields = {"batch_size": 8, "warmup": 2, "steps": 20, "repeats": 1, **fields}
        options = {**self.cluster.options(launcher), **fields.pop("options", {})}
        spec = RunSpec(
            framework=framework, model="linear", topology=f"{shape}@{launcher}", options=options, **fields
        )
        plan = make_plan(spec, Registry())
        request = plan.request(f"{self.id}{name}", (python,), spec.env, {"source": "synthetic"})
        bundle = build(request, self.folder / f"case{name}.pyz", plan.packages, bundle_metadata(plan))
        topology, placing = spec.topology, Registry().topology(launcher)
        if launcher == "joined":
            self._monkeypatch.delenv("RANK")
            self._monkeypatch.delenv("WORLD_SIZE")
            document = {"id": request.id, "spec": spec.to_dict(), "start": plan.deadlines["start"]}
            return self._count_repeats(self._joined(document, bundle.path, hosts), name)
        job = Job(
            request.id,
            bundle.path,
            topology.nodes,
            topology.devices_per_node,
            "cpu",
            plan.topology_options,
            container_prefix(spec, "cpu", placing.placement_variables),
            plan.deadlines["start"],
        )
        return self._count_repeats(launch_events(placing, job), name)

    def folder_of_nodes(self):
        """A folder of this bench that all nodes see, which is removed with the cluster."""
        folder = self.cluster.home / f"bench-{self.id}"
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    def srun(self, nodes, *command, hosts=""):
        """Start a job of this bench, with a task on each node, as somebody else would; it gets a SIGTERM at the end."""
        flags = ("-w", hosts) if hosts else ()
        return subprocess.Popen(
            [
                "srun",
                "--no-kill",
                f"-N{nodes}",
                "--ntasks-per-node=1",
                "-J",
                f"dlperf-{self.id}",
                *flags,
                *command,
            ],
            cwd=self.folder_of_nodes(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def _joined(self, document, bundle, hosts):
        """The events of a case that the tasks of a job run."""
        case = self.folder_of_nodes() / f"{document['id']}.json"
        case.write_text(json.dumps(document))
        shutil.copy(bundle, case.with_suffix(".pyz"))
        case.with_suffix(".pyz").chmod(0o600)
        events, nodes = case.with_suffix(".events"), str(document["spec"]["topology"]).partition("n")[0]
        events.write_text("")
        script = Path(__file__).with_name("joined_rank.py")
        process = self.srun(nodes, sys.executable, str(script), str(case), hosts=hosts)
        is_ended = False

        def pids():
            return [pid for node in self.cluster.nodes for pid in node.processes(str(case))]

        try:
            with events.open() as file:
                rest, is_over = "", False
                while not is_over:
                    # srun ends before a task on a node that is cut off.
                    is_over = process.poll() is not None and not pids()
                    rest += file.read()
                    *lines, rest = rest.split("\n")
                    for event in map(json.loads, lines):
                        is_ended = event["event"] == "ended"
                        yield event
                    if is_ended:
                        return
                    time.sleep(0.05)
            raise AssertionError(process.stdout.read())
        finally:
            if not is_ended:  # as Ctrl-C does; a SIGTERM for srun would leave five seconds only
                for pid in pids():
                    os.kill(pid, signal.SIGINT)
            try:
                process.communicate(timeout=60)
            except subprocess.TimeoutExpired:  # a node is cut off, and Slurm has not noticed yet
                process.terminate()
                process.communicate()

    def _count_repeats(self, stream, name):
        """Yield the events of a stream, and count the repeats that are kept."""
        with closing(stream):
            for event in stream:
                self._kept[name] += event["event"] == "attempt-ended" and event["failure"] is None
                yield event

    def add_outcome(self, fault, launcher, problem, started_at, finished=0, kept=None, name=""):
        """Add the outcome of a fault to the matrix.

        Args:
            fault: the fault, of `fault_outcomes.FAULTS`.
            launcher: the launcher.
            problem: the failure of the run.
            started_at: the time of the fault.
            finished: the repeats that had finished before.
            kept: the repeats that were kept, where they are not those of the stream.
            name: the name of the case, as `events` takes it.
        """
        self.outcomes.append(
            {
                "fault": fault,
                "launcher": launcher,
                "kind": problem["kind"],
                "node": problem["node"],
                "seconds": round(time.monotonic() - started_at),
                "finished": finished,
                "kept": self._kept[name] if kept is None else kept,
            }
        )

    def _allocate(self, *more):
        """An allocation of all nodes, as a shell under salloc has it; `more` are arguments of salloc."""
        if "SLURM_JOB_ID" in os.environ:
            return
        message = subprocess.run(
            ["salloc", "-N4", "--no-shell", "--no-kill", "-J", self.id, *more],
            capture_output=True,
            text=True,
            check=True,
        )
        number = re.search(r"job allocation (\d+)", message.stderr)[1]
        self._monkeypatch.setenv("SLURM_JOB_ID", number)
        self._monkeypatch.setenv("SLURM_JOB_NUM_NODES", "4")

    def leave(self):
        """Leave the allocation's shell: it goes on, and what is started from here on are jobs of their own."""
        self._monkeypatch.delenv("SLURM_JOB_ID")
        self._monkeypatch.delenv("SLURM_JOB_NUM_NODES")

    def job(self):
        """The number of the job of this bench's case."""
        name = f"dlperf-{self.id}"
        message = subprocess.run(
            ["squeue", "-h", "-n", name, "-o", "%i"], capture_output=True, text=True, check=True
        )
        return message.stdout.split()[0]

    def left(self):
        """What of a case still lives or lies on the nodes; looked at until there is nothing, for as long as agents may
        take that hear nothing any more."""
        end = time.monotonic() + 30
        while True:
            marks = (self.id, "dlperf-")
            actual = [
                f"{n.name}: process {pid}"
                for n in self.cluster.nodes
                for mark in marks
                for pid in n.processes(mark)
            ]
            actual += [
                f"{n.name}: {name}"
                for n in self.cluster.nodes
                for name in n.run("ls", "/tmp").split()
                if "dlperf" in name and not cluster_module.CHECKOUT.is_relative_to(f"/tmp/{name}")
            ]
            if not actual or time.monotonic() > end:
                return actual
            time.sleep(0.2)

    def close(self):
        subprocess.run(["scancel", "--user=root"], check=False)


@pytest.fixture
def bench(cluster, tmp_path, monkeypatch):
    """A bench; afterwards nothing is left on any node."""
    created = Bench(cluster, tmp_path, monkeypatch)
    yield created
    created.close()
    left = created.left()
    for outcome in created.outcomes:
        fault_outcomes.record_or_compare({**outcome, "orphans": len(left)})
    assert left == []
    cluster.wait_idle(60)
