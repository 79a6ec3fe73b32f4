"""The replicas of a case in processes of their own, side by side on this machine: for tests of worker halves.

The file of such a test is also the program of its processes. `answers` starts it, once per rank, and it ends with

    if __name__ == "__main__":
        multiprocess.answer(train)

Beside what `in_process` needs, this needs NumPy.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dlperf_sdk.harness import in_process
from dlperf_sdk.worker import canonical
from dlperf_sdk.worker.digest import digest_of
from dlperf_sdk.worker.interface import Trainer
from dlperf_sdk.worker.network import free_ports
from dlperf_sdk.worker.request import Request

STEPS = 3
PATIENCE = 280.0
"""Seconds that a process may take: compilers and slow machines."""


def answers(program: str, *arguments: str, ports: int, processes: int = 2) -> list[Any]:
    """Run `python PROGRAM RANK PORT,… WORD…` once per rank; return each last line of output, parsed as JSON.

    Raises:
        RuntimeError: a process had a nonzero exit code; its own output gives the reason.
        subprocess.TimeoutExpired: a process did not end in time.
    """
    words = [",".join(free_ports("127.0.0.1", ports)), *arguments]
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    started = [
        subprocess.Popen([sys.executable, program, str(rank), *words], stdout=subprocess.PIPE, env=variables)
        for rank in range(processes)
    ]
    try:
        outputs = [process.communicate(timeout=PATIENCE)[0] for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
    if any(process.returncode for process in started):
        raise RuntimeError(f"Exit codes by rank: {[process.returncode for process in started]}.")
    return [json.loads(text.splitlines()[-1]) for text in outputs]


def answer(train: Callable[..., Any]) -> None:
    """Call `train` with the words, the ports and the rank from the command line, and print the result as JSON.

    This is the entry point of a process that `answers` starts.
    """
    rank, ports, *arguments = sys.argv[1:]
    print(json.dumps(train(*arguments, ports.split(","), int(rank))), flush=True)


def train_shard(
    request: Request,
    ports: Sequence[str],
    rank: int,
    batch: Callable[[Trainer], Any] = lambda trainer: trainer.canonical_batch(),
) -> dict[str, Any]:
    """Train some steps in this process, and return its values by replica.

    Args:
        request: The case.
        ports: The ports of the cluster.
        rank: The process.
        batch: Function of the trainer that returns the batch; by default the canonical shard.
    """
    runtime, trainer = in_process.start(request, ports, rank)
    deviation, shard = trainer.deviation(), batch(trainer)
    losses = losses_of(trainer, shard)
    report = {
        "replicas": [
            {
                "losses": [step[i] for step in losses],
                "digest": digest_of([*request.parameters], trainer.parameters(i)),
                "means": [float(abs(mean).sum()) for _, mean in trainer.running_means(i)],
            }
            for i in range(len(losses[0]))
        ],
        "deviation": deviation,
        "observed": trainer.observed(),
        "facts": runtime.facts(),
    }
    runtime.stop()
    return report


def losses_of(trainer: Trainer, batch: Any) -> list[Sequence[float]]:
    """Return, for some steps on one batch, the loss of each of the process's replicas."""
    return [trainer.read_loss(trainer.step(batch).loss) for _ in range(STEPS)]


def both_shards(request: Request) -> dict[str, Any]:
    """Return the canonical shards of two replicas as the batch of a request for one replica: name → NumPy array."""
    half = request.batch_size // 2
    shards = [canonical.batch(request.inputs, half, shard, request.seed) for shard in range(2)]
    return {name: np.concatenate([shard[name] for shard in shards]) for name in shards[0]}


def mean_losses(replicas: Sequence[dict[str, Any]]) -> list[float]:
    """Return, for each step, the mean of the replicas' losses, which one replica with both shards has."""
    steps = zip(*(replica["losses"] for replica in replicas), strict=True)
    return [sum(losses) / len(losses) for losses in steps]
