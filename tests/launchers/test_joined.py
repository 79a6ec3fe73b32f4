"""Processes of a job, as somebody else starts them, run a case together: how that ends, and that nothing is left."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from code_blocks import blocks_of, execute

from dlperf_sdk.launchers.joined.meeting import JOIN_VARIABLE
from dlperf_sdk.results.store import ResultStore

pytestmark = pytest.mark.long

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "join-a-job.md"
CASE = {"batch-size": "4", "warmup": "1", "steps": "5", "repeats": "1", "python": sys.executable}


def words_of(**fields):
    """The flags of a toy case, with other values for these fields."""
    case = {**CASE, **{name.replace("_", "-"): str(value) for name, value in fields.items()}}
    return [word for name, value in case.items() for word in (f"--{name}", value)]


TIMEOUT = 120.0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Job:
    """A job of several processes on this machine, each with the variables of its rank.

    The processes of a node share a working directory, and all nodes do unless `apart` is set.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.port, self.processes = folder, _free_port(), []
        self.variables: dict[str, str] = {}

    def start(self, *words, nodes=2, per_node=1, ranks=None, folder=None, program=("-m", "dlperf_sdk")):
        """Start a program of Python in these ranks; by default dlperf in all of them."""
        for rank in range(nodes * per_node) if ranks is None else ranks:
            variables = {
                **{
                    "RANK": str(rank),
                    "WORLD_SIZE": str(nodes * per_node),
                    "LOCAL_RANK": str(rank % per_node),
                },
                **{"LOCAL_WORLD_SIZE": str(per_node), "GROUP_RANK": str(rank // per_node)},
                **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(self.port)},
            }
            self.processes.append(
                subprocess.Popen(
                    [sys.executable, *program, *words],
                    env={**os.environ, **variables, **self.variables},
                    cwd=folder or self.folder,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    process_group=0,
                )
            )
        return self.processes

    def run(self, *words, per_node=1, **fields):
        """Run the command in all ranks of two nodes; return exit codes, standard outputs, and standard errors."""
        words = ("run", *words, *words_of(output=self.folder / "store", **fields), "--quiet")
        self.start(*words, per_node=per_node)
        return self.end()

    def start_case(self, fault, topology, per_node=1, **fields):
        """Start a case of the faulty plugin, whose controller reports its progress."""
        case = words_of(output=self.folder / "store", topology=topology, set=f"fault={fault}", **fields)
        self.start("run", "faulty", "linear", *case, per_node=per_node)

    def end(self):
        """Wait for all processes; return exit codes, standard outputs, and standard errors."""
        outputs = [process.communicate(timeout=TIMEOUT) for process in self.processes]
        codes = [process.returncode for process in self.processes]
        return codes, [output for output, _ in outputs], [errors for _, errors in outputs]

    def until_measuring(self, attempt):
        """Wait until the controller says that an attempt is in the window."""
        seen = []
        for line in self.processes[0].stderr:
            seen.append(line)
            if line.startswith(f"repeat {attempt} ") and "measuring" in line:
                return
        raise AssertionError("".join(seen))

    def result(self):
        """Return the only result in the store."""
        (path,) = (self.folder / "store").glob("*/result.json")
        return ResultStore(self.folder / "store").load(path.parent.name)

    def left(self):
        """Return what lives of the case, and what lies in the folder of the job, after half a minute at most."""
        deadline = time.monotonic() + 30
        (directory,) = (path for path in (self.folder / "store").iterdir() if path.is_dir())
        while True:
            processes = [
                process.pid
                for process in psutil.process_iter(["cmdline", "status"])
                if process.info["status"] != psutil.STATUS_ZOMBIE
                and any(directory.name in word for word in process.info["cmdline"] or ())
            ]
            if not processes or time.monotonic() > deadline:
                files = [path.name for path in self.folder.iterdir() if path.name.startswith(".dlperf")]
                return processes + files
            time.sleep(0.2)

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()


@pytest.fixture
def job(tmp_path):
    created = Job(tmp_path)
    yield created
    created.close()


def test_the_ranks_of_two_nodes_run_a_case_and_only_the_first_prints(job):
    codes, outputs, errors = job.run("numpy", "linear", "--topology", "2n2d@joined", per_node=2)
    assert codes == [0] * 4, errors
    assert "throughput" in outputs[0]
    assert [*outputs[1:], *errors[1:]] == [""] * 6
    result = job.result()
    assert [(record.rank, record.node) for record in result.repeats[0].records] == [
        (0, 0),
        (1, 0),
        (2, 1),
        (3, 1),
    ]
    assert result.verdict("parity").outcome == "pass"
    assert job.left() == []


FORGING_PYTHON = """#!/bin/sh
case "$*" in *"--node 1 "*) echo Welcome; echo '{"event": "ended", "status": "ok", "failure": null}';; esac
exec python "$@"
"""


def test_what_the_command_of_another_node_prints_is_no_event_of_node_0(job):
    python = job.folder / "python"
    python.write_text(FORGING_PYTHON.replace("python", sys.executable), encoding="utf-8")
    python.chmod(0o755)
    words = ("--topology", "2n1d@joined", "--set", f"agent_python={python}")
    codes, _, errors = job.run("numpy", "linear", *words)
    assert codes == [0] * 2, errors
    assert len(job.result().repeats) == 1


def test_a_topology_may_be_smaller_than_the_job(job):
    codes, _, errors = job.run("numpy", "linear", "--topology", "1n1d@joined", per_node=2)
    assert codes == [0] * 4, errors


def test_nodes_without_a_shared_folder_meet_by_a_secret_of_the_user(job, tmp_path):
    job.variables = {JOIN_VARIABLE: "0123456789abcdef" * 2}
    words = ("run", "numpy", "linear", "--topology", "2n1d@joined", *words_of())
    for rank in (0, 1):
        folder = tmp_path / f"node{rank}"
        folder.mkdir()
        job.start(*words, ranks=[rank], folder=folder)
    codes, _, errors = job.end()
    assert codes == [0, 0], errors
    assert [path.name for path in (tmp_path / "node1").iterdir()] == []
    assert [path.name for path in (tmp_path / "node0").iterdir()] == ["dlperf-results"]


def test_several_values_are_one_campaign_on_the_same_ranks(job):
    codes, outputs, errors = job.run(
        "numpy", "linear", "--topology", "2n1d@joined", "--json", batch_size="2,4"
    )
    assert codes == [0, 0], errors
    outcome = json.loads(outputs[0])
    assert outcome["ended"] == "complete"
    assert outputs[1] == ""
    assert len([*(job.folder / "store").iterdir()]) == 1


def test_an_interleaved_gate_measures_both_sides_on_the_same_ranks(job):
    """Two pairs decide nothing: the exit code of each rank is the gate's."""
    protocol = {"batch_size": 4, "warmup": 1, "steps": 5, "repeats": 2}
    case = {"framework": "numpy", "model": "linear", "topology": "2n1d@joined", **protocol}
    (job.folder / "case.json").write_text(json.dumps(case))
    job.start("gate", "case.json", "--against", "env.OMP_NUM_THREADS=1", "--quiet", "--output", "gate")
    codes, outputs, errors = job.end()
    assert codes == [6, 6], errors
    assert "inconclusive" in outputs[0]
    assert [outputs[1], errors[1]] == ["", ""]


def test_a_script_may_run_several_cases_and_continues_on_the_first_rank_only(job, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nfrom dlperf_sdk import run\n"
        "fields = dict(batch_size=4, warmup=1, steps=5, repeats=1, python=sys.executable, store=None)\n"
        "for topology in ('2n1d@joined', '1n1d@joined'):\n"
        "    print(topology, run('numpy', 'linear', topology=topology, **fields).status)\n"
    )
    job.start(program=(str(script),))
    codes, outputs, errors = job.end()
    assert codes == [0, 0], errors
    assert outputs == ["2n1d@joined ok\n1n1d@joined ok\n", ""]


def test_it_passes_the_conformance_suite_of_launchers(job, tmp_path):
    """Both ranks run the suite; the second one serves the first from its first case on."""
    suite = tmp_path / "test_suite_of_joined.py"
    suite.write_text(
        "from dlperf_sdk.testing import TopologyConformance\n\n"
        "class TestJoined(TopologyConformance):\n"
        "    topology, framework, model, nodes = 'joined', 'numpy', 'linear', 2\n"
    )
    job.start(program=("-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-x", str(suite)))
    codes, (output, _), _ = job.end()
    assert codes[0] == 0, output
    assert "9 passed, 1 skipped" in output, output


@pytest.mark.parametrize("block", [block for block in blocks_of(PAGE) if block.language == "sh"], ids=str)
def test_the_page_of_the_documentation(block, tmp_path):
    execute(block, tmp_path)
    (path,) = (tmp_path / "results").glob("*/result.json")
    result = ResultStore(tmp_path / "results").load(path.parent.name)
    assert result.status == "ok"
    assert len(result.hardware) == 2


def test_a_failure_is_the_exit_code_of_every_rank(job):
    codes, _, errors = job.run(
        "faulty", "linear", "--set", "fault=exception", "--topology", "2n2d@joined", per_node=2
    )
    assert codes == [4] * 4, errors
    assert errors[1:] == [""] * 3


def test_variables_of_the_job_reach_no_worker(job):
    """torch's plugin sets RANK by itself; numpy's does not, so one would come from the job."""
    job.start_case("stubborn", "2n1d@joined")
    job.until_measuring(1)
    workers = [
        process.environ()
        for process in psutil.process_iter(["cmdline"])
        if "worker" in (process.info["cmdline"] or ())
        and str(psutil.Process(process.ppid()).cmdline()).count("agent")
    ]
    assert len(workers) >= 2
    for environ in workers:
        assert not {"RANK", "LOCAL_RANK", "WORLD_SIZE", "GROUP_RANK", JOIN_VARIABLE} & {*environ}
    os.kill(job.processes[0].pid, signal.SIGINT)
    job.end()


def test_ranks_with_different_arguments_are_told_apart(job):
    words = (
        "run",
        "numpy",
        "linear",
        "--topology",
        "2n1d@joined",
        *words_of(),
        "--output",
        str(job.folder / "store"),
    )
    job.start(*words, ranks=[0])
    job.start(*words, "--seed", "7", ranks=[1])
    codes, _, errors = job.end()
    assert codes == [4, 4], errors
    failure = job.result().failure
    assert (failure.kind, failure.phase, failure.node) == ("unavailable", "start", 1)
    assert "local rank 0 of node 1" in failure.message
    assert "its cases differ in seed." in failure.message


def test_a_rank_that_never_comes_is_named_within_the_deadline(job):
    words = (
        "run",
        "numpy",
        "linear",
        "--topology",
        "2n2d@joined",
        *words_of(),
        "--output",
        str(job.folder / "store"),
    )
    job.start(*words, "--deadline", "start=8", per_node=2, ranks=[0, 1, 2])
    codes, _, errors = job.end()
    assert codes == [4] * 3, errors
    failure = job.result().failure
    assert (failure.kind, failure.phase, failure.node) == ("lost-node", "start", 1)
    assert "have not joined within 7 s: local rank 1 of node 1." in failure.message


def test_a_rank_that_finds_no_controller_says_where_it_looked(job):
    words = ("run", "numpy", "linear", "--topology", "2n1d@joined", *words_of(), "--deadline", "start=3")
    job.start(*words, ranks=[1])
    codes, outputs, (errors,) = job.end()
    assert (codes, outputs) == ([4], [""])
    assert errors.startswith(
        f"Error: Rank 1 (local rank 0 of node 1) ({socket.gethostname()}) has not found rank 0"
    )
    assert str(job.folder / ".dlperf-job-") in errors
    assert "--set meeting=DIR" in errors


@pytest.mark.parametrize("rank", [1, 2], ids=["idle", "leader"])
def test_a_killed_rank_ends_the_run_with_its_node(job, rank):
    job.start_case("stubborn-second", "2n2d@joined", repeats=2, per_node=2)
    job.until_measuring(2)
    job.processes[rank].kill()
    codes, _, errors = job.end()
    assert codes == [-signal.SIGKILL if index == rank else 5 for index in range(4)], errors
    result = job.result()
    assert (result.failure.kind, result.failure.node) == ("lost-node", rank // 2), result.failure
    assert len(result.repeats) == 1
    assert job.left() == []


def test_a_killed_controller_takes_everything_along(job):
    job.start_case("stubborn-second", "2n2d@joined", repeats=2, per_node=2)
    job.until_measuring(2)
    job.processes[0].kill()
    codes, _, errors = job.end()
    assert codes == [-signal.SIGKILL, 4, 4, 4]
    for error in errors[1:]:
        assert "has lost rank 0 of its job, on 127.0.0.1" in error
    left = job.left()
    assert len(left) == 1 and left[0].startswith(".dlperf-job-")  # the next job replaces the file
    (directory,) = (job.folder / "store").iterdir()
    recovered = ResultStore(job.folder / "store").recover(directory.name)
    assert [attempt.status for attempt in recovered.attempts][:1] == ["ok"]


@pytest.mark.parametrize(
    ("rank", "number"),
    [(0, signal.SIGINT), (1, signal.SIGTERM), (3, signal.SIGINT)],
    ids=["controller", "idle", "leader"],
)
def test_a_signal_to_any_rank_interrupts_the_run_in_all(job, rank, number):
    """A scheduler signals one rank after another. All of them treat both signals alike."""
    job.start_case("stubborn-second", "2n2d@joined", repeats=2, per_node=2)
    job.until_measuring(2)
    job.processes[rank].send_signal(number)
    codes, _, errors = job.end()
    assert codes == [130] * 4, errors
    result = job.result()
    assert (result.failure.kind, len(result.repeats)) == ("interrupted", 1), result.failure
    assert job.left() == []


def test_an_agents_python_that_is_missing_is_named(job):
    words = ("--set", "agent_python=/nowhere/python9", "--topology", "2n1d@joined")
    codes, _, errors = job.run("numpy", "linear", *words)
    assert codes == [4, 4], errors
    failure = job.result().failure
    assert (failure.kind, failure.phase) == ("unavailable", "start")
    assert "/nowhere/python9, which runs the agents, cannot be started on node" in failure.message


def test_a_job_that_is_too_small_is_refused_in_each_rank_before_anything_is_started(job):
    codes, _, errors = job.run("numpy", "linear", "--topology", "4n1d@joined")
    assert codes == [2, 2]
    for error in errors:
        assert "The topology needs 4 nodes with 1 device each; the job has 2 nodes" in error
    assert not (job.folder / "store").exists()


def test_outside_of_a_job_the_case_is_refused(tmp_path):
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "dlperf_sdk",
            "run",
            "numpy",
            "linear",
            "--topology",
            "1n1d@joined",
            *words_of(),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 4
    assert "This process belongs to no job that could be joined" in done.stderr
    assert "torchrun (TORCHELASTIC_RUN_ID)" in done.stderr
