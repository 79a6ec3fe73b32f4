"""Measure what the measuring loop costs around a training step of a given length, on a given kind of device.

    PYTHONPATH=src:plugins/dlperf-torch/src PYTHON scripts/gpu_overhead.py --device cuda

The method is that of `benchmarks/overhead.py`: one trainer, one batch, the worker's loop and a bare `for` loop in
turns, the device synchronized once in each timed window, and the bare loop against itself beside it. Here the batch
size is chosen so that a step takes about `--step` seconds. The program prints one JSON object. It runs in an
interpreter that has torch, NumPy and attrs; `gpu_check.py` starts it there.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
from pathlib import Path
from time import monotonic
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))

import overhead
import paired
import torch_case
from dlperf_torch.framework import Torch

from dlperf_sdk.harness import in_process
from dlperf_sdk.worker.interface import Runtime, Trainer

TRIED = 64
"""Samples in the batch that the first guess is made with."""
GUESSES = 5
"""How often at most."""
NEAR = 0.2
"""As a fraction of the time that a step should take, how far off it may be."""
TIMED = 5
"""Steps that a guess is made with."""


def _seconds_per_step(runtime: Runtime, trainer: Trainer, steps: int = TIMED) -> float:
    """Of a few steps, after as many that are not timed."""
    batches = trainer.batches()
    for batch in itertools.islice(batches, steps):
        trainer.step(batch)
    runtime.synchronize()
    started_at = monotonic()
    for batch in itertools.islice(batches, steps):
        trainer.step(batch)
    runtime.synchronize()
    return (monotonic() - started_at) / steps


def started(device: str, size: int, batch_size: int, precision: str) -> tuple[Runtime, Trainer]:
    """Return the runtime of torch and a trainer of ResNet-50, started in this process without agents.

    Args:
        device: Kind of the device, `cpu` or `cuda`.
        size: Height and width of the images in pixels.
        batch_size: Samples per step.
        precision: Name of the precision.

    Raises:
        Unsupported: The device cannot be used, or does not have the precision.
    """
    options = {"image_size": size, "num_classes": 1000}
    requested = in_process.request(
        Torch, "resnet50", options, batch_size=batch_size, precision=precision, device=device
    )
    return in_process.start(requested)


def _batch_size_for(device: str, size: int, precision: str, step: float) -> int:
    """The batch size whose step takes about so many seconds, guessed again from ever closer by: a step of few samples
    is all launching, and its time does not grow with them."""
    actual = TRIED
    for _ in range(GUESSES):
        taken = _seconds_per_step(*started(device, size, actual, precision))
        if abs(taken / step - 1) <= NEAR:
            break
        actual = max(2, round(actual * step / taken))  # batch norm needs two
    return actual


def main() -> int:
    """Measure the overhead as the command line says, print one JSON object, and return 0."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    parser.add_argument("--size", type=int, default=224, metavar="PIXELS")
    parser.add_argument("--precision", default="amp-bf16")
    parser.add_argument("--step", type=float, default=0.08, metavar="SECONDS", help="about how long it takes")
    parser.add_argument("--steps", type=int, default=12, help="in a timed window")
    parser.add_argument("--pairs", type=paired.pair_count, default=20)
    chosen = parser.parse_args()
    if chosen.device == "cpu":
        torch_case.take_threads(None)
    batch_size = _batch_size_for(chosen.device, chosen.size, chosen.precision, chosen.step)
    runtime, trainer = started(chosen.device, chosen.size, batch_size, chosen.precision)
    with tempfile.TemporaryDirectory() as folder:
        sides = overhead.Sides(runtime, overhead.SameSteps(trainer), Path(folder), 1, chosen.steps)
        rows = overhead.compared({"step": sides}, chosen.pairs, lambda text: None)
    actual: dict[str, Any] = {
        "batch_size": batch_size,
        "clock": runtime.clock,
        "facts": runtime.facts(),
        "rows": rows,
    }
    runtime.stop()
    print(json.dumps(actual))
    return 0


if __name__ == "__main__":
    sys.exit(main())
