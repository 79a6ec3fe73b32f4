"""The replicas of a case in separate processes on this machine, for tests of worker halves.

The file of such a test is also the program of its processes. `run_ranks` starts it once per rank, and it ends with

    if __name__ == "__main__":
        multiprocess.run_rank(train)

Besides the dependencies of `in_process`, this module needs NumPy.
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
"""Number of steps that `losses_of` trains."""
TIMEOUT = 280.0
"""Maximum seconds that a process may take; compilers and slow machines need them."""


def run_ranks(program: str, *arguments: str, ports: int, processes: int = 2) -> list[Any]:
    """Run `python PROGRAM RANK PORT,… ARGUMENT…` once per rank, at the same time, and return the answer of each rank.

    All processes have ended when this function returns.

    Args:
        program: Path of a Python program.
        arguments: Further arguments of the program.
        ports: Number of free ports to choose; the program gets them as one argument, separated by commas.
        processes: Number of ranks.

    Returns:
        For each rank, in order, the last line of its standard output, parsed as JSON.

    Raises:
        RuntimeError: A process had a nonzero exit code. The reason is in its standard error, which is not captured.
        subprocess.TimeoutExpired: A process did not end within `TIMEOUT` (280) seconds.
        ValueError: The last line that a process printed is not JSON.
        IndexError: A process printed nothing.
    """
    words = [",".join(free_ports("127.0.0.1", ports)), *arguments]
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    started = [
        subprocess.Popen([sys.executable, program, str(rank), *words], stdout=subprocess.PIPE, env=variables)
        for rank in range(processes)
    ]
    try:
        outputs = [process.communicate(timeout=TIMEOUT)[0] for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
    if any(process.returncode for process in started):
        raise RuntimeError(f"Exit codes by rank: {[process.returncode for process in started]}.")
    return [json.loads(text.splitlines()[-1]) for text in outputs]


def run_rank(train: Callable[..., Any]) -> None:
    """Call `train` with the arguments of the command line, and print its result as one line of JSON.

    This is the entry point of a process that `run_ranks` starts.

    Args:
        train: A function that takes first the arguments of `run_ranks` (each a str), then the list of ports (each a str
            of digits), and last the rank (an int). Its result must be a JSON value.
    """
    rank, ports, *arguments = sys.argv[1:]
    print(json.dumps(train(*arguments, ports.split(","), int(rank))), flush=True)


def train_shard(
    request: Request,
    ports: Sequence[str],
    rank: int,
    batch: Callable[[Trainer], Any] = lambda trainer: trainer.canonical_batch(),
) -> dict[str, Any]:
    """Train `STEPS` (3) steps on one batch as one trainer process of a case, and return a report about its replicas.

    The runtime is started here, and stopped before the function returns. The errors are those of `in_process.start`.

    Args:
        request: The case.
        ports: Free ports in digits, such as `29400`, the same in all processes of the case; empty for one replica.
        rank: Rank of the trainer process, counted from 0 over all nodes.
        batch: Function that takes the trainer and returns the batch for its steps; by default the canonical batch of
            its replicas.

    Returns:
        A dict of JSON values. `replicas` is a list with a dict per replica of this process: `losses`, a list of one
        number per step; `digest`, the SHA-256 of the parameters in hexadecimal; and `means`, a list of one number per
        running mean, the sum of its absolute values. `deviation` is the relative deviation of the outputs from fp32,
        None if unknown; `observed` has the settings in effect, as `Trainer.observed` returns them; and `facts` the
        facts of `Runtime.facts`.
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
    """Train `STEPS` (3) steps on one batch, and return the losses of each step.

    The list has an entry per step: the losses of the process's replicas, in order.

    Args:
        trainer: The trainer.
        batch: A batch on the devices, as `Trainer.step` takes it.
    """
    return [trainer.read_loss(trainer.step(batch).loss) for _ in range(STEPS)]


def both_shards(request: Request) -> dict[str, Any]:
    """Return a batch for one replica that joins the canonical shards of two replicas with half its batch size.

    The first half of the samples is shard 0, the second half is shard 1.

    Args:
        request: The request of the single replica; its batch size is even.

    Returns:
        A dict: name of an input → NumPy array of shape (batch size, ...).
    """
    half = request.batch_size // 2
    shards = [canonical.batch(request.inputs, half, shard, request.seed) for shard in range(2)]
    return {name: np.concatenate([shard[name] for shard in shards]) for name in shards[0]}


def mean_losses(replicas: Sequence[dict[str, Any]]) -> list[float]:
    """Return the mean of the replicas' losses for each step, to compare with one replica that trains on all shards.

    Args:
        replicas: A dict per replica of the case, whose `losses` is a list of one number per step, as in the report of
            `train_shard`.
    """
    steps = zip(*(replica["losses"] for replica in replicas), strict=True)
    return [sum(losses) / len(losses) for losses in steps]
