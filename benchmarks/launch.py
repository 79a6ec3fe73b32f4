"""What launching costs: a toy case of one step through an engine, against the same ranks started plainly.

    .venv/bin/python benchmarks/launch.py                  # local, against bare interpreters
    .venv/bin/python benchmarks/launch.py --engine slurm   # inside an allocation, against srun of the same script

Each pair starts N ranks twice, in turns: as a case (agents, preflight, barrier, one step, records, the end), and as N
interpreters that import NumPy, meet over TCP, take the same step and end. Bound: the case takes at most
0.5 s + 5 ms per rank more.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import monotonic

import paired
from paired import Block, Comparison, Spent

from dlperf_sdk import RunSpec
from dlperf_sdk.bundle import build
from dlperf_sdk.interfaces.topology import Job
from dlperf_sdk.launch import events
from dlperf_sdk.plan import make_plan
from dlperf_sdk.registry import Registry

FIXED, PER_RANK = 0.5, 0.005
"""Seconds that the harness may take."""
_SHAPES = {1: (1, 1), 4: (4, 1), 16: (4, 4), 64: (4, 16)}

# What a rank does without us: the same imports, the same meeting, one step.
_PLAIN = """\
import os, sys
from multiprocessing.connection import Client, Listener
import numpy as np
rank = int(os.environ.get("SLURM_PROCID", os.environ.get("RANK", "0")))
size, host, port = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
x, w = np.ones((8, 16), np.float32), np.ones((16, 1), np.float32)
gradient = 2 * x.T @ (x @ w)
if rank == 0:
    with Listener((host, port), backlog=size) as listener:
        peers = [listener.accept() for _ in range(size - 1)]
    for peer in peers:
        peer.recv_bytes()
    for peer in peers:
        peer.send_bytes(gradient.tobytes())
else:
    while True:
        try:
            peer = Client((host, port))
            break
        except ConnectionRefusedError:
            pass
    peer.send_bytes(gradient.tobytes())
    peer.recv_bytes()
"""


def case(ranks: int, engine: str) -> Block:
    """A block: the case from its launch to the end of its agents."""
    nodes, devices = _SHAPES[ranks]
    spec = RunSpec(
        framework="numpy",
        model="linear",
        topology=f"{nodes}n{devices}d@{engine}",
        batch_size=8,
        canonical_steps=0,
        warmup=0,
        steps=1,
        repeats=1,
    )
    plan = make_plan(spec, Registry())
    request = plan.request("launch", (sys.executable,), {}, {"source": "synthetic"})

    def work() -> None:
        with tempfile.TemporaryDirectory() as folder:
            bundle = build(request, Path(folder) / "case.pyz")
            job = Job("launch", bundle.path, nodes, devices, plan.device, {}, plan.topology_options)
            *_, last = events(Registry().topology(engine), job)
        if last["failure"] is not None:
            raise RuntimeError(last["failure"]["message"])

    return lambda: _spent(work)


def plain(ranks: int, engine: str, port: int) -> Block:
    """A block: so many interpreters, from their start to their end."""
    nodes, devices = _SHAPES[ranks]

    def work() -> None:
        if engine == "slurm":
            hosts = os.environ["SLURM_JOB_NODELIST"]
            first = subprocess.run(
                ["scontrol", "show", "hostnames", hosts], capture_output=True, text=True, check=True
            ).stdout.split()[0]
            step = [
                "srun",
                f"--nodes={nodes}",
                f"--ntasks-per-node={devices}",
                "--overlap",
                "--cpu-bind=none",
            ]
            subprocess.run([*step, sys.executable, "-c", _PLAIN, str(ranks), first, str(port)], check=True)
            return
        started = [
            subprocess.Popen(
                [sys.executable, "-c", _PLAIN, str(ranks), "127.0.0.1", str(port)],
                env={**os.environ, "RANK": str(rank)},
            )
            for rank in range(ranks)
        ]
        if sum(process.wait() for process in started):
            raise RuntimeError("a plain rank failed")

    return lambda: _spent(work)


def _spent(work: object) -> Spent:
    """Wall and processor time, that of the processes it waited for included."""
    before, began = os.times(), monotonic()
    work()  # type: ignore[operator]
    wall, after = monotonic() - began, os.times()
    used = (after.user + after.system + after.children_user + after.children_system) - (
        before.user + before.system + before.children_user + before.children_system
    )
    return Spent(wall, used)


def main() -> int:
    parser = paired.arguments(__doc__, 6)
    parser.add_argument("--engine", choices=("local", "slurm"), default="local")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 4, 16], choices=sorted(_SHAPES))
    chosen = parser.parse_args()
    comparisons = [
        Comparison(
            f"{ranks} ranks", case(ranks, chosen.engine), plain(ranks, chosen.engine, 19000 + ranks), 1
        )
        for ranks in chosen.ranks
    ]
    found = paired.interleaved(comparisons, chosen.pairs, paired.telling("launching"))
    rows = []
    for ranks, comparison, pairs in zip(chosen.ranks, comparisons, found, strict=True):
        row, bound = paired.summary(comparison, pairs), FIXED + PER_RANK * ranks
        rows.append(({**row, "claim": paired.at_most(bound, row["difference_per_step"])}, bound))
    if chosen.json:
        print(paired.as_json({"machine": paired.machine(), "rows": [row for row, _ in rows]}))
        return 0
    print(paired.said(paired.machine()))
    headings = ("", "case ÷ plain", "seconds more", "")
    lines = []
    for row, bound in rows:
        more, ratio = paired.number(row["difference_per_step"], ".2f"), paired.number(row["ratio"], ".2f")
        lines.append((row["name"], ratio, more, paired.claimed(row, f"at most {bound:.2f} s")))
    print(paired.table(headings, lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
