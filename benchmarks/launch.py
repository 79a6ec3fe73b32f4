"""What launching costs: a toy case of one step through a launcher, against the same ranks started without us.

    .venv/bin/python benchmarks/launch.py                  # on this machine: bare interpreters, torchrun
    .venv/bin/python benchmarks/launch.py --launcher slurm   # four Slurm nodes, made here (root): srun, torchrun

Each pair starts N ranks twice, in turns: as a case (bundle, agents, preflight, barrier, one step), and as a script
that imports NumPy, draws its weights, meets over TCP and takes the same step: in N interpreters started plainly, and
under torchrun. All of them, and the agents, are run by the interpreter of this script. What is timed is the way from
the launch to the end of the first step. Bound: the case takes at most 0.5 s + 5 ms per rank more than the plain
interpreters. All clocks are this machine's.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import monotonic

import numpy as np
import paired
from paired import Block, Comparison, Spent

from dlperf_sdk import RunSpec, environments
from dlperf_sdk.interfaces.topology import Job
from dlperf_sdk.launchers.events import launch_events
from dlperf_sdk.planning.bundle import build
from dlperf_sdk.planning.plan import make_plan
from dlperf_sdk.registry.plugins import Registry

ROOT = Path(__file__).resolve().parent.parent
FIXED, PER_RANK = 0.5, 0.005
"""Seconds that the harness may take."""
RANKS = (1, 4, 16, 64)
_PORT = 19000

# What a rank does without us: the same imports, the same meeting, one step. It says when that was.
_PLAIN = """\
import os, sys, time
from multiprocessing.connection import Client, Listener
import numpy as np
rank = int(os.environ["RANK"] if "RANK" in os.environ else os.environ["SLURM_PROCID"])
size, host, port = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
draw = np.random.RandomState(0).standard_normal  # as the case draws its weights and its batch
x, w = draw((8, 16)).astype(np.float32), draw((16, 1)).astype(np.float32)
gradient = 2 * x.T @ (x @ w)
if rank == 0:
    with Listener((host, port), backlog=size) as listener:
        peers = [listener.accept() for _ in range(size - 1)]
    for peer in peers:
        peer.recv_bytes()
    for peer in peers:
        peer.send_bytes(gradient.tobytes())
    print("stepped", time.monotonic(), flush=True)
else:
    while True:
        try:
            peer = Client((host, port))
            break
        except ConnectionRefusedError:
            time.sleep(0.005)
    peer.send_bytes(gradient.tobytes())
    peer.recv_bytes()
"""


def shape(ranks: int, launcher: str) -> tuple[int, int]:
    """Return the number of nodes and of devices per node, for a number of ranks and a launcher."""
    nodes = 4 if launcher == "slurm" and ranks > 1 else 1
    return nodes, ranks // nodes


def case(ranks: int, launcher: str) -> Block:
    """Return a block: a case of `ranks` devices from its launch by `launcher` to the end of its first step.

    The block raises RuntimeError if the case fails.
    """
    nodes, devices = shape(ranks, launcher)
    spec = RunSpec(
        framework="numpy",
        model="linear",
        topology=f"{nodes}n{devices}d@{launcher}",
        options={"agent_python": sys.executable} if launcher == "slurm" else {},
        batch_size=8,
        canonical_steps=0,
        warmup=0,
        steps=1,
        repeats=1,
    )
    plan = make_plan(spec, Registry())
    request = plan.request("launch", (sys.executable,), {}, {"source": "synthetic"})

    def work() -> float:
        stepped = 0.0
        with tempfile.TemporaryDirectory() as folder:
            bundle = build(request, Path(folder) / "case.pyz")
            job = Job("launch", bundle.path, nodes, devices, plan.device, plan.topology_options)
            for event in launch_events(Registry().topology(launcher), job):
                if event.get("failure") is not None:
                    raise RuntimeError(event["failure"]["message"])
                if event["event"] == "attempt-ended":
                    stepped = max(record["window"]["end"] for record in event["records"])
        return stepped

    return lambda: _spent(work)


def plain(ranks: int, launcher: str) -> Block:
    """Return a block: `ranks` interpreters with the plain script, started by a loop, or by one srun for Slurm.

    The block raises RuntimeError if a rank fails.
    """
    nodes, devices = shape(ranks, launcher)
    script = [sys.executable, "-c", _PLAIN, str(ranks), _first(launcher), str(_PORT + ranks)]
    if launcher == "slurm":
        step = ["srun", f"--nodes={nodes}", f"--ntasks-per-node={devices}", "--overlap", "--overcommit"]
        step.append("--cpu-bind=none")
        return lambda: _spent(lambda: _stepped([[*step, *script]], [{}]))
    ours = [{"RANK": str(rank)} for rank in range(ranks)]
    return lambda: _spent(lambda: _stepped([script] * ranks, ours))


def torchrun(ranks: int, launcher: str, python: Sequence[str]) -> Block:
    """Return a block: the plain script in `ranks` processes under torchrun, which srun starts once per node for Slurm.

    `python` is the command of an interpreter with torch. The block raises RuntimeError if a rank fails.
    """
    nodes, devices = shape(ranks, launcher)
    script = [sys.executable, "-c", _PLAIN, str(ranks), _first(launcher), str(_PORT + 100 + ranks)]
    where = ["--standalone"]
    step = []
    if launcher == "slurm":
        where = ["--rdzv-backend=c10d", f"--rdzv-endpoint={_first(launcher)}:{_PORT + 200 + ranks}"]
        step = ["srun", f"--nodes={nodes}", "--ntasks-per-node=1", "--overlap", "--overcommit"]
    command = [
        *step,
        *python,
        "-m",
        "torch.distributed.run",
        f"--nnodes={nodes}",
        f"--nproc-per-node={devices}",
    ]
    return lambda: _spent(
        lambda: _stepped([[*command, *where, "--no-python", *script]], [{"OMP_NUM_THREADS": "1"}])
    )


def _first(launcher: str) -> str:
    """Where rank 0 listens."""
    if launcher != "slurm":
        return "127.0.0.1"
    command = ["scontrol", "show", "hostnames", os.environ["SLURM_JOB_NODELIST"]]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0]


def _stepped(commands: Sequence[Sequence[str]], variables: Sequence[dict[str, str]]) -> float:
    """Run them all; when rank 0 had taken its step."""
    started = [
        subprocess.Popen(
            command, env={**os.environ, **own}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for command, own in zip(commands, variables, strict=True)
    ]
    messages = [process.communicate() for process in started]
    if any(process.returncode for process in started):
        raise RuntimeError(f"a rank failed: {messages[0][1][-2000:]}")
    actual = re.search(r"stepped ([0-9.]+)", "".join(out for out, _ in messages))
    if actual is None:
        raise RuntimeError("rank 0 has not said when it stepped")
    return float(actual[1])


def _spent(work: Callable[[], float]) -> Spent:
    """Seconds to the first step; and processor time up to the end, that of the processes it waited for included."""
    before, started_at = os.times(), monotonic()
    wall, after = work() - started_at, os.times()
    used = (after.user + after.system + after.children_user + after.children_system) - (
        before.user + before.system + before.children_user + before.children_system
    )
    return Spent(wall, max(used, 0.01))  # a whole srun may be less than the hundredth that is counted in


@contextlib.contextmanager
def resolve_placement(launcher: str) -> Iterator[None]:
    """Return a context with an allocation for Slurm: the one that this runs in, else one on four nodes in namespaces.

    For other launchers, do nothing. The variables of the allocation are set in this process.

    Raises:
        SystemExit: Slurm is needed and cannot be started here.
    """
    if launcher != "slurm" or "SLURM_JOB_ID" in os.environ:
        yield
        return
    sys.path.insert(0, str(ROOT / "tests" / "engines"))
    import cluster

    reason = cluster.missing()
    if reason is not None:
        sys.exit(f"Slurm cannot be had here: {reason}. Run this inside an allocation.")
    created = cluster.Cluster(0)
    try:
        created.start()
        os.environ.update(created.environment)
        message = subprocess.run(
            ["salloc", "-N4", "--exclusive", "--no-shell"], capture_output=True, text=True, check=True
        )
        number = re.search(r"job allocation (\d+)", message.stderr)
        assert number is not None
        os.environ.update(SLURM_JOB_ID=number[1], SLURM_JOB_NUM_NODES="4", SLURM_JOB_NODELIST="n[1-4]")
        yield
        subprocess.run(["scancel", number[1]], check=False)
    finally:
        created.close()


def _torch_python() -> tuple[str, ...]:
    """The interpreter of torch's managed environment; made if need be."""
    spec = Registry().framework("torch").environment("cpu", "all_reduce", "resnet50")
    return environments.prepare("torch", spec, "cpu").command


def main() -> int:
    """Run the comparisons, print a table or JSON, and return 0."""
    parser = paired.arguments(__doc__, 6)
    parser.add_argument("--launcher", choices=("local", "slurm"), default="local")
    parser.add_argument("--ranks", type=int, nargs="+", default=list(RANKS), choices=RANKS)
    parser.add_argument("--no-torchrun", action="store_true", help="leave torchrun out")
    chosen = parser.parse_args()
    launcher, others = chosen.launcher, "srun" if chosen.launcher == "slurm" else "interpreters"
    python = () if chosen.no_torchrun else _torch_python()
    comparisons = []
    with resolve_placement(launcher):
        for ranks in chosen.ranks:
            ours = case(ranks, launcher)
            comparisons.append(Comparison(f"{ranks}, {others}", ours, plain(ranks, launcher)))
            if python:
                comparisons.append(Comparison(f"{ranks}, torchrun", ours, torchrun(ranks, launcher, python)))
        actual = paired.interleaved(comparisons, chosen.pairs, paired.telling("launching"))
    rows = []
    for comparison, pairs in zip(comparisons, actual, strict=True):
        row, ranks = paired.summary(comparison, pairs), int(comparison.name.partition(",")[0])
        if comparison.name.endswith(others):
            row["claim"] = paired.at_most(FIXED + PER_RANK * ranks, row["difference_per_step"])
        rows.append((ranks, row))
    growth = _growth([(ranks, row["difference_per_step"]["median"]) for ranks, row in rows if "claim" in row])
    if chosen.json:
        message = {"machine": paired.machine(), "growth": growth, "rows": [row for _, row in rows]}
        print(paired.as_json(message))
        return 0
    print(paired.said(paired.machine()))
    lines = [
        (
            row["name"],
            paired.number(row["a_seconds_per_step"], ".2f"),
            paired.number(row["b_seconds_per_step"], ".2f"),
            paired.number(row["difference_per_step"], ".2f"),
            paired.claimed(row, f"at most {FIXED + PER_RANK * ranks:.2f} s"),
        )
        for ranks, row in rows
    ]
    print(
        paired.table((f"ranks over {launcher}, against", "case, s", "theirs, s", "seconds more", ""), lines)
    )
    if growth is not None:
        print(
            f"The harness's own share: {growth[0]:.2f} s and {1000 * growth[1]:.1f} ms per rank (least squares)."
        )
    return 0


def _growth(points: Sequence[tuple[int, float]]) -> tuple[float, float] | None:
    """Seconds, and seconds per rank, through the medians; None for fewer than two."""
    if len(points) < 2:
        return None
    slope, fixed = np.polyfit([ranks for ranks, _ in points], [more for _, more in points], 1)
    return float(fixed), float(slope)


if __name__ == "__main__":
    sys.exit(main())
