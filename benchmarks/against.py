"""A plugin's ResNet-50 against its framework's own model in a plain loop: what all these comparisons share.

Each block is a few steps of one side; pairs of blocks are interleaved (`paired.py`). Equal work means, on both
sides: the same sizes, batch, precision, threads, momentum SGD, no label smoothing and no weight decay (frameworks
disagree on what decays), as many parameters, and as many FLOPs in the forward pass.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import paired
from paired import Comparison, Spent

from dlperf_sdk.harness import in_process
from dlperf_sdk.interfaces.framework import Framework
from dlperf_sdk.worker.agent.affinity import thread_variables
from dlperf_sdk.worker.interface import Trainer
from dlperf_sdk.worker.request import Request

BOUND = 1.0
"""Ours ÷ theirs in throughput, at least: the median."""
LOWER_BOUND = 0.97
"""The same: the lower end of the interval."""


class Size(NamedTuple):
    """How large a case is."""

    image_size: int
    batch_size: int
    steps: int
    """Timed steps in a block."""


SIZES = {"tiny": Size(64, 4, 3), "small": Size(128, 8, 1), "full": Size(224, 8, 1)}
"""`tiny` is for work on this file: a step there is mostly the optimizer and the reordering of weights."""


class Theirs(NamedTuple):
    """Their model in a plain loop."""

    step: Callable[[], object]
    """One step; where the framework works on while it returns, a block ends when the runtime has synchronized."""
    last_loss: Callable[[], float]
    parameters: int
    """Trainable ones."""
    flops: tuple[float, float]
    """Of one forward pass in their own counter: ours, theirs."""


Make = Callable[[Request, Trainer], Theirs]


def block(step: Callable[[], object], steps: int, finish: Callable[[], object]) -> Callable[[], Spent]:
    """Return a block of steps until they are done, after one that is not timed.

    That one brings this side's weights back into the caches.

    Args:
        step: Function that takes one step.
        steps: Number of timed steps.
        finish: Function that waits until the steps are done.
    """

    def run() -> Spent:
        step()
        finish()
        return paired.timed(lambda: [*(step() for _ in range(steps)), finish()])

    return run


def compare(
    plugin: type[Framework], make: Make, precision: str, size: Size, pairs: int, compiler: str = "none"
) -> dict[str, Any]:
    """Compare one precision: ours against theirs, and against itself.

    Args:
        plugin: The controller half of the plugin.
        make: Function that returns their side for our request and trainer.
        precision: Name of the precision.
        size: The size of the case.
        pairs: Number of pairs of blocks.
        compiler: Compiler of our side.

    Returns:
        JSON values: `precision`, `parameters`, `flops`, `observed`, `facts`, `last_losses`, and `rows`: ours against
            theirs with a `claim`, then against itself.

    Raises:
        RuntimeError: The work is not the same, or a side did not train.
        Unsupported: The plugin cannot run the case.
    """
    options = {"image_size": size.image_size, "label_smoothing": 0.0, "weight_decay": 0.0}
    request = in_process.request(
        plugin, "resnet50", options, batch_size=size.batch_size, precision=precision, compiler=compiler
    )
    runtime, trainer = in_process.start(request)
    batches = trainer.batches()
    losses: list[Any] = [None]

    def ours() -> None:
        losses[0] = trainer.step(next(batches)).loss

    theirs = make(request, trainer)
    own = sum(math.prod(entry["shape"]) for entry in request.parameters)
    if own != theirs.parameters or abs(theirs.flops[0] / theirs.flops[1] - 1) > 1e-2:
        raise RuntimeError(
            f"not the same work: {own} and {theirs.parameters} parameters, FLOPs {theirs.flops[0]:.4g} and "
            f"{theirs.flops[1]:.4g}"
        )
    sides = {"plain loop": theirs.step, "ours, A/A": ours}
    comparisons = [
        Comparison(
            name,
            block(step, size.steps, runtime.synchronize),
            block(ours, size.steps, runtime.synchronize),
            size.steps,
        )
        for name, step in sides.items()
    ]
    actual = paired.interleaved(comparisons, pairs, paired.telling(precision))
    rows = [paired.summary(comparison, of) for comparison, of in zip(comparisons, actual, strict=True)]
    rows[0]["claim"] = paired.at_least(BOUND, LOWER_BOUND, rows[0]["ratio"])
    last = {"ours": trainer.read_loss(losses[0])[0], "theirs": theirs.last_loss()}
    if not all(math.isfinite(loss) for loss in last.values()):
        raise RuntimeError(f"in {precision} a side did not train: the last losses are {last}")
    return {
        "precision": precision,
        "parameters": own,
        "flops": list(theirs.flops),
        "observed": trainer.observed(),
        "facts": runtime.facts(),
        "last_losses": last,
        "rows": rows,
    }


def main(
    description: str | None,
    plugin: str,
    versions: tuple[str, ...],
    makes: dict[str, Make],
    compiler: str = "none",
) -> int:
    """Run the command, print a table or JSON, and return 0.

    Args:
        description: Description in the help.
        plugin: `module:class` of the controller half.
        versions: Names of distributions whose versions are printed.
        makes: Precision → the function that makes their side.
        compiler: Compiler of our side.
    """
    parser = paired.arguments(description, pairs=20)
    parser.add_argument("--size", choices=SIZES, default="small", help="pixels: 64, 128 (default) or 224")
    parser.add_argument("--precision", choices=sorted(makes), help="only this precision")
    parser.add_argument("--threads", type=int, default=0, help="threads (default: one per usable processor)")
    chosen = parser.parse_args()
    before = paired.machine()
    take_threads(chosen.threads)
    module, _, name = plugin.partition(":")
    entry, size = getattr(importlib.import_module(module), name), SIZES[chosen.size]
    cases = [
        compare(entry, make, precision, size, chosen.pairs, compiler)
        for precision, make in makes.items()
        if chosen.precision in (None, precision)
    ]
    document = {
        "benchmark": f"reference_{entry.name}",
        "machine": before,
        "load_after": paired.load(),
        "versions": {package: _version(package) for package in versions},
        "size": size._asdict(),
        "cases": cases,
    }
    if chosen.json:
        print(paired.as_json(document))
        return 0
    print(paired.said(before))
    print(", ".join(f"{package} {version}" for package, version in document["versions"].items()))
    print("throughput of ours ÷ theirs, median of pairs (95 % interval)")
    for case in cases:
        print(f"\nresnet50, {case['precision']}, batch size {size.batch_size}, {size.image_size} px")
        headings = (
            "theirs",
            "pairs",
            "theirs, ms",
            "ours, ms",
            "ours ÷ theirs",
            "by processor time",
            "bound",
        )
        print(paired.table(headings, [_cells(row) for row in case["rows"]]))
        for row in case["rows"]:
            itself = row["name"].endswith("A/A")
            print(f"{row['name']}: {paired.in_words(row['ratio'], other='itself' if itself else 'theirs')}.")
    return 0


def take_threads(threads: int) -> None:
    """Set the variables for a number of threads in this process, 0 for one per usable processor.

    Call this before the framework is imported.
    """
    import os

    os.environ.update(thread_variables(threads or len(os.sched_getaffinity(0))))


def _version(package: str) -> str:
    from importlib.metadata import version

    return version(package)


def _cells(row: dict[str, Any]) -> list[str]:
    return [
        row["name"],
        str(row["pairs"]),
        f"{row['a_seconds_per_step']['median'] * 1e3:.1f}",
        f"{row['b_seconds_per_step']['median'] * 1e3:.1f}",
        paired.number(row["ratio"], ".3f"),
        paired.number(row["cpu_ratio"], ".3f"),
        paired.claimed(row, f"≥ {BOUND:.2f}, from ≥ {LOWER_BOUND}"),
    ]


if __name__ == "__main__":
    sys.exit("run reference_tensorflow.py or reference_paddle.py")
