"""What the measuring loop costs: its own time around a step that does nothing, and around a real one.

    python scripts/in_environment.py torch --with attrs -- benchmarks/overhead.py

1. `dlperf_sdk.worker.loop.measure` with a trainer whose step does nothing, against a bare `for` loop over the
   same step. The difference per step is the loop's own time. Bound: 1 µs, for each of the three clocks.
2. The same around a training step of ResNet-50 in torch (64 px, batch size 4): one trainer object, one batch,
   blocks in turns, the device synchronized once in each timed window. This corroborates the first, as far as
   the noise of A/A (the bare loop against itself) lets it.

The second part is left out where torch is not installed.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from time import monotonic, process_time
from typing import Any

import paired
from paired import Comparison, Spent

import dlperf_sdk
from dlperf_sdk.worker import loop
from dlperf_sdk.worker.clocks import CLOCKS
from dlperf_sdk.worker.interface import Runtime, Step, Trainer
from dlperf_sdk.worker.processes import TRAINER, Process
from dlperf_sdk.worker.progress import Progress

BOUND = 1e-6
"""Seconds of the loop's own time per step, at most."""
NOTHING_STEPS = 10_000
"""Steps in a block whose step does nothing."""
REAL_STEPS = 5
CASE: dict[str, Any] = {
    "model": "resnet50",
    "options": {"image_size": 64, "num_classes": 1000},
    "batch_size": 4,
}


class NothingRuntime(Runtime):
    """A runtime whose device is always done, with any clock."""

    def __init__(self, clock: str) -> None:
        self.clock = clock

    def mark(self) -> None:
        """Return None in place of an event."""

    def elapsed(self, marks: list[Any]) -> list[float]:
        """Return 0 seconds between neighboring events."""
        return [0.0] * (len(marks) - 1)

    def wait(self, loss: Any) -> None:
        """Return at once."""


class NothingTrainer(Trainer):
    """A step that does nothing."""

    _DONE = Step(None, 1)
    process = Process(TRAINER, 0, {})
    """No replicas: there is no state to be compared over the window."""

    def __init__(self) -> None:
        pass

    def canonical_batch(self) -> None:
        """Return None in place of a batch."""

    def batches(self) -> Iterator[None]:
        """Return an iterator over None without end."""
        return itertools.repeat(None)

    def step(self, batch: Any) -> Step:
        """Return a step of one sample without a loss, always the same object; `batch` is not used."""
        return self._DONE

    def read_loss(self, loss: Any) -> list[float]:
        """Return an empty list, since there are no replicas."""
        return []


class SameSteps(NothingTrainer):
    """A trainer's own `step` on one batch, without what it does before and after a window.

    The evidence for the precision is no part of the window; only the measuring loop asks for
    it, so that it would leave other things in the caches than the bare loop finds there.
    """

    def __init__(self, trainer: Trainer) -> None:
        self.step: Callable[[Any], Step] = trainer.step  # type: ignore[method-assign]
        self.read_loss: Callable[[Any], list[float]] = trainer.read_loss  # type: ignore[method-assign]
        self.request = trainer.request
        self._batch = trainer.canonical_batch()

    def canonical_batch(self) -> Any:
        """Return the one batch."""
        return self._batch

    def read_labels(self, labels: Any) -> list[Any]:
        """Return an empty list, since there are no replicas."""
        return []

    def batches(self) -> Iterator[Any]:
        """Return an iterator over the one batch without end."""
        return itertools.repeat(self._batch)


class Edges(Progress):
    """Progress as a worker reports it; at the edges of phases it notes processor time and synchronizations.

    It replaces `synchronize` of the runtime by a function that counts the calls.

    Attributes:
        synchronizations: Number of synchronizations so far.
        at: Phase → processor time in seconds and synchronizations when it began.
    """

    def __init__(self, path: str, runtime: Runtime) -> None:
        super().__init__(path)
        self.synchronizations = 0
        self.at: dict[str, tuple[float, int]] = {}
        synchronize = runtime.synchronize

        def counted() -> None:
            self.synchronizations += 1
            synchronize()

        runtime.synchronize = counted  # type: ignore[method-assign]

    def enter(self, phase: str) -> None:
        """Note the beginning of a phase, and report it."""
        self.at[phase] = process_time(), self.synchronizations
        super().enter(phase)


class Sides:
    """The two sides around one trainer: `measured` runs the worker's loop, `bare` a `for` loop.

    Args:
        runtime: The runtime.
        trainer: The trainer.
        folder: Folder of the file with the progress.
        warmup: Number of steps before the timed window.
        steps: Number of steps in it.
    """

    def __init__(self, runtime: Runtime, trainer: Trainer, folder: Path, warmup: int, steps: int) -> None:
        self.runtime, self.trainer, self.warmup, self.steps = runtime, trainer, warmup, steps
        self.edges = Edges(str(folder / "progress"), runtime)
        self.seen: dict[str, set[int]] = {"measured": set(), "bare": set()}
        """Side → how often the device was synchronized in its timed windows."""

    def measured(self) -> Spent:
        """Run `dlperf_sdk.worker.loop.measure`, and return the cost of its window, from its own stamps."""
        protocol = {"canonical_steps": 0, "warmup": self.warmup, "steps": self.steps}
        actual = loop.measure(self.runtime, self.trainer, protocol, self.edges, lambda: None)
        (cpu, synchronized), (cpu_end, synchronized_end) = self.edges.at["measure"], self.edges.at["verify"]
        self.seen["measured"].add(synchronized_end - synchronized)
        return Spent(actual["window"]["end"] - actual["window"]["start"], cpu_end - cpu)

    def bare(self) -> Spent:
        """Take the same steps in a bare loop, and return the cost of the window."""
        step, batches = self.trainer.step, self.trainer.batches()
        for batch in itertools.islice(batches, self.warmup):
            step(batch)
        self.runtime.synchronize()
        synchronized = self.edges.synchronizations
        cpu, start = process_time(), monotonic()
        for batch in itertools.islice(batches, self.steps):
            step(batch)
        self.runtime.synchronize()
        end, cpu_end = monotonic(), process_time()
        self.seen["bare"].add(self.edges.synchronizations - synchronized)
        return Spent(end - start, cpu_end - cpu)

    def comparisons(self, name: str) -> list[Comparison]:
        """Return the comparisons of the loop with the bare loop, and of the bare loop with itself."""
        return [
            Comparison(name, self.measured, self.bare, self.steps),
            Comparison(f"{name}, A/A", self.bare, self.bare, self.steps),
        ]


def compared(every: dict[str, Sides], pairs: int, message: Callable[[str], None]) -> list[dict[str, Any]]:
    """Return the rows of these sides, as `paired.summary` makes them, two per side.

    Args:
        every: Name → sides.
        pairs: Number of pairs of blocks.
        message: Function that shows progress.

    Raises:
        RuntimeError: A side did not synchronize the device exactly once per window.
    """
    comparisons = [comparison for name, sides in every.items() for comparison in sides.comparisons(name)]
    actual = paired.interleaved(comparisons, pairs, message)
    for name, sides in every.items():
        if sides.seen["measured"] != {1} or sides.seen["bare"] != {1}:
            raise RuntimeError(
                f"{name}: synchronizations per window were {sides.seen}, not one on both sides"
            )
    return [paired.summary(comparison, of) for comparison, of in zip(comparisons, actual, strict=True)]


def nothing(folder: Path, pairs: int, message: Callable[[str], None]) -> list[dict[str, Any]]:
    """Return the rows of part 1, two for each clock; arguments are those of `compared`, and a folder for files."""
    every = {}
    for clock in CLOCKS:
        place = folder / clock
        place.mkdir()
        every[f"no-op, clock {clock}"] = Sides(
            NothingRuntime(clock), NothingTrainer(), place, 100, NOTHING_STEPS
        )
    return compared(every, pairs, message)


def real(
    folder: Path, pairs: int, threads: int | None, message: Callable[[str], None]
) -> tuple[dict[str, Any], list[Any]]:
    """Return the facts of torch's runtime, and the rows of part 2.

    Args:
        folder: Folder for files.
        pairs: Number of pairs of blocks.
        threads: Number of threads; None for one per usable processor.
        message: Function that shows progress.
    """
    import torch_case

    torch_case.take_threads(threads)
    runtime, trainer = torch_case.start(torch_case.request(**CASE))
    sides = Sides(runtime, SameSteps(trainer), folder, 1, REAL_STEPS)
    rows = compared({"ResNet-50 step": sides}, pairs, message)
    runtime.stop()
    return runtime.facts(), rows


def main() -> int:
    """Measure, print tables or JSON, and return 0."""
    parser = paired.arguments(__doc__, pairs=20)
    parser.add_argument(
        "--threads", type=int, help="threads of a real step (default: one per usable processor)"
    )
    chosen = parser.parse_args()
    before = paired.machine()
    with tempfile.TemporaryDirectory() as created:
        folder = Path(created)
        rows = nothing(folder, chosen.pairs, paired.telling("no-op step"))
        facts = None
        if find_spec("torch") is not None:
            facts, more = real(folder, chosen.pairs, chosen.threads, paired.telling("ResNet-50 step"))
            rows += more
    for row in rows:
        if row["name"].startswith("no-op") and not row["name"].endswith("A/A"):
            row["claim"] = paired.at_most(BOUND, row["difference_per_step"])
    document = {
        "benchmark": "overhead",
        "machine": before,
        "load_after": paired.load(),
        "versions": {"dlperf-sdk": dlperf_sdk.__version__, "torch": facts and facts["framework_version"]},
        "threads": facts and facts["threads"],
        "case": CASE,
        "rows": rows,
    }
    if chosen.json:
        print(paired.as_json(document))
        return 0
    print(paired.said(before))
    print("medians of pairs, with their 95 % intervals; A/A is the bare loop against itself\n")
    print(
        paired.table(
            ("step", "pairs", "bare loop, µs", "the loop's own time, µs", "bound"), _nothing_rows(rows)
        )
    )
    if facts is None:
        print(
            "\nThe real step is left out: torch is not installed here. See the top of this file.",
            file=sys.stderr,
        )
        return 0
    print(f"\ntorch {facts['framework_version']}, {facts['threads']} threads\n")
    headings = ("step", "pairs", "bare loop, ms", "time ÷ bare loop's", "processor time ÷ bare loop's")
    print(paired.table(headings, _real_rows(rows)))
    return 0


def _nothing_rows(rows: list[dict[str, Any]]) -> list[list[str]]:
    return [
        [
            row["name"],
            str(row["pairs"]),
            f"{row['b_seconds_per_step']['median'] * 1e6:.3f}",
            paired.number(row["difference_per_step"], ".3f", 1e6),
            paired.claimed(row, f"≤ {BOUND * 1e6:.0f}"),
        ]
        for row in rows
        if row["name"].startswith("no-op")
    ]


def _real_rows(rows: list[dict[str, Any]]) -> list[list[str]]:
    return [
        [
            row["name"],
            str(row["pairs"]),
            f"{row['b_seconds_per_step']['median'] * 1e3:.1f}",
            paired.number(row["ratio"], ".4f"),
            paired.number(row["cpu_ratio"], ".4f"),
        ]
        for row in rows
        if not row["name"].startswith("no-op")
    ]


if __name__ == "__main__":
    sys.exit(main())
