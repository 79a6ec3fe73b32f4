"""The checks of `gpu_check.py`: each checks one property, and states in a sentence what it found."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import nvidia_smi
from attrs import frozen
from gpu_bench import Bench, Outcome

from dlperf_sdk import hookimpl
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.reports.numbers import quantity
from dlperf_sdk.results.result import FAIL, INCONCLUSIVE, NOT_APPLICABLE, PASS, Result
from dlperf_sdk.worker.gpu.gpus import list_gpus

ROOT = Path(__file__).resolve().parent.parent
GIBI = 2**30
CLOCKS_APART = 0.002
"""The steps' times by device events may miss the synchronized window by this fraction of it, …"""
CLOCKS_SLACK = 0.001
"""… and by so many seconds: the host stamps before the first event, and wakes after the last."""
OVERHEAD = 0.002
"""The loop may change the time of a step by this fraction."""
LEFT_OVER = 64 * 2**20
"""Bytes that the driver may keep of what a process held: its own bookkeeping."""
RELEASE = 10.0
"""Seconds in which it must let go of the rest."""


@frozen
class Check:
    """One check of a property of the machine or of a run.

    Args:
        name: Name of the check.
        seconds: Time limit of the check, in seconds.
        look: Function that runs the check on a bench and returns the outcome.
    """

    name: str
    seconds: float
    """Time limit of the check."""
    look: Callable[[Bench], Outcome]


def doctor(bench: Bench) -> Outcome:
    """Return the outcome of the check that `dlperf doctor` finds nothing broken, and a GPU if the device is `cuda`."""
    output = subprocess.run(
        [sys.executable, "-m", "dlperf_sdk", "doctor", "--json"], capture_output=True, check=False
    )
    actual = json.loads(output.stdout)
    broken = [item for item in actual["findings"] if item["outcome"] == "broken"]
    gpus = [f"{gpu.name}, driver {gpu.driver}" for gpu in list_gpus()]
    if broken:
        return Outcome(FAIL, "; ".join(f"{item['name']}: {item['detail']}" for item in broken))
    if bench.device == "cuda" and not gpus:
        return Outcome(FAIL, "The driver names no GPU.")
    return Outcome(PASS, f"Ready; {'; '.join(gpus) or 'no GPU'}.")


def parity(model: str, fields: Mapping[str, Any], bench: Bench) -> Outcome:
    """Run a model, and check that it follows its float64 reference and that its precision is in effect.

    Args:
        model: Name of the model.
        fields: Fields of the case's run spec, such as `precision`.
        bench: The place where the check runs.

    Returns:
        The outcome; not-applicable if the case is unsupported here. The speed has no influence on it.
    """
    result = bench.run(model, on_busy="note", **fields)
    if result.status == "unsupported":
        assert result.failure is not None
        return Outcome(NOT_APPLICABLE, result.failure.message, results=(result.id,))
    if result.failure is not None:
        return failed(result)
    verdicts = {verdict.name: verdict for verdict in result.verdicts}
    wrong = [
        verdict for verdict in verdicts.values() if verdict.kind == "integrity" and verdict.outcome == FAIL
    ]
    if wrong:
        output = " ".join(f"{verdict.name}: {verdict.detail}" for verdict in wrong)
        return Outcome(FAIL, output, results=(result.id,))
    requested = [verdicts["parity"], verdicts["precision-effective"]]
    outcome = PASS if all(verdict.outcome == PASS for verdict in requested) else INCONCLUSIVE
    message = next(verdict for verdict in requested if verdict.outcome == outcome or outcome != PASS)
    assert result.parity is not None
    figures = {"deviations": result.parity.deviations, "updates": result.parity.updates}
    return Outcome(outcome, message.detail, figures, (result.id,))


def clocks(bench: Bench) -> Outcome:
    """Return the outcome of the check that a run's window is as long by the device's events as by the host's clock."""
    result = bench.run("resnet50", precision="amp-bf16", warmup=10, steps=50)
    if result.failure is not None:
        return failed(result)
    (record,) = result.repeats[0].records
    return clocks_agree(record.clock, record.step_times, record.window.seconds, result.id)


def clocks_agree(clock: str, step_times: Sequence[float], window: float, result: str) -> Outcome:
    """Return an outcome: `pass` if the sum of the steps' times is close to the length of their window, else `fail`.

    They may differ by 0.2 % of the window and 1 ms.

    Args:
        clock: Name of the clock that timed the steps; unless it is `event`, the outcome is not-applicable.
        step_times: Seconds of each step.
        window: Seconds of the synchronized window.
        result: Name of the result.
    """
    total = math.fsum(step_times)
    figures = {"clock": clock, "steps": len(step_times), "sum_of_steps": total, "window": window}
    output = (
        f"{len(step_times)} steps take {total:.6f} s by the clock {clock!r}, and the synchronized window is "
        f"{window:.6f} s: {(total / window - 1) * 100:+.3f} %."
    )
    if clock != "event":
        return Outcome(NOT_APPLICABLE, f"There are no device events here. {output}", figures, (result,))
    close = abs(window - total) <= CLOCKS_APART * window + CLOCKS_SLACK
    return Outcome(PASS if close else FAIL, output, figures, (result,))


def sensors(bench: Bench) -> Outcome:
    """Return the outcome of the check that the samplers, which use NVML, agree with nvidia-smi during a run.

    Power, energy, clock, utilization, memory and temperature are compared.
    """
    if bench.device != "cuda":
        return Outcome(NOT_APPLICABLE, "NVML and nvidia-smi tell of NVIDIA GPUs; this is no run on one.")
    if shutil.which("nvidia-smi") is None:
        return Outcome(INCONCLUSIVE, "There is no nvidia-smi on the PATH to hold NVML against.")
    with nvidia_smi.watching() as lines:
        result = bench.run("resnet50", precision="amp-bf16", warmup=40, steps=200)
    if result.failure is not None:
        return failed(result)
    return sensors_agree(nvidia_smi.agreements(result.repeats[0], lines), len(lines), result.id)


def sensors_agree(actual: Sequence[nvidia_smi.Agreement], lines: int, result: str) -> Outcome:
    """Return the outcome of a comparison of the samplers with nvidia-smi.

    It is `fail` if a quantity differs by more than `nvidia_smi.QUANTITIES` allows, `inconclusive` if the samplers or
    nvidia-smi do not know a quantity, else `pass`.

    Args:
        actual: The comparison of each quantity.
        lines: Number of lines that nvidia-smi printed.
        result: Name of the result.
    """
    figures = {"lines": lines, "agreements": [item._asdict() for item in actual]}
    far = [item for item in actual if item.within is False]
    untold = [item.name for item in actual if item.within is None]
    output = "; ".join(
        f"{item.name} {item.ours:.6g} and {item.theirs:.6g}" for item in actual if item.within is not None
    )
    if far:
        names = ", ".join(item.name for item in far)
        return Outcome(
            FAIL, f"Too far from nvidia-smi: {names}. Ours and theirs: {output}.", figures, (result,)
        )
    if untold or not actual:
        names = ", ".join(untold) or "anything"
        return Outcome(INCONCLUSIVE, f"Not both tell {names}. Ours and theirs: {output}.", figures, (result,))
    return Outcome(PASS, f"Means over the window, ours and nvidia-smi's: {output}.", figures, (result,))


def out_of_memory(bench: Bench) -> Outcome:
    """Return the outcome of the check that too large a batch ends as `out-of-memory`, and the next run succeeds."""
    # Of BERT, whose inputs are small: what does not fit is on the device, not on its way there.
    limit = None if bench.device == "cuda" else 3 * GIBI
    # On a GPU some 440 GB, in tensors that 32-bit offsets still reach.
    large = 2**13 if bench.device == "cuda" else 2**20
    failing = bench.run("bert-base", precision="amp-bf16", batch_size=large, memory_limit=limit)
    stored = bench.gpu_memory()
    after = bench.run("bert-base", precision="amp-bf16")
    ids = (failing.id, after.id)
    if failing.status != "out-of-memory":
        return Outcome(
            FAIL, f"A batch of {large:,} ended as {failing.status!r}: {_why(failing)}", results=ids
        )
    if not after.ok:
        return Outcome(FAIL, f"The run after it ended as {after.status!r}: {_why(after)}", results=ids)
    output = f"A batch of {large:,} ended as out-of-memory ({_why(failing)}), and the next run is ok."
    return Outcome(PASS, output, {"device_memory_after": stored}, ids)


class Killer:
    """An observer that ends a run's last started worker with SIGKILL in the measured window.

    Attributes:
        pid: The worker's process id; None before it has started.
        killed: True once it was ended.
    """

    def __init__(self) -> None:
        self.pid: int | None = None
        self.killed = False

    @hookimpl
    def dlperf_worker_started(self, pid: int) -> None:
        """Note the process id of the worker that started last, which will be ended."""
        self.pid = pid

    @hookimpl
    def dlperf_step_progress(self, phase: str) -> None:
        """End the noted worker with SIGKILL if `phase` is `measure`, once."""
        if phase == "measure" and not self.killed and self.pid is not None:
            self.killed = True
            os.kill(self.pid, signal.SIGKILL)


def _killed_worker(bench: Bench) -> Outcome:
    """A worker that is killed is a typed failure, and leaves nothing on the device."""
    before, killer = bench.gpu_memory(), Killer()
    result = bench.run("bert-base", steps=100_000, observers=(killer,))
    if not killer.killed or result.status != "crashed":
        return Outcome(FAIL, f"The run ended as {result.status!r}: {_why(result)}", results=(result.id,))
    until = time.monotonic() + RELEASE
    while bench.gpu_memory() > before + LEFT_OVER and time.monotonic() < until:
        time.sleep(0.2)
    after, gone = bench.gpu_memory(), not Path(f"/proc/{killer.pid}").exists()
    figures = {"device_memory_before": before, "device_memory_after": after}
    output = f"Killed in its window, the run ended as crashed, and its process is {'gone' if gone else 'still there'}"
    if bench.device != "cuda":
        return Outcome(
            PASS if gone else FAIL, f"{output}; there is no GPU to look at.", figures, (result.id,)
        )
    outcome = PASS if gone and after <= before + LEFT_OVER else FAIL
    output += f"; in use on the GPU before and after: {quantity(before, 'B')}, {quantity(after, 'B')}."
    return Outcome(outcome, output, figures, (result.id,))


def largest(bench: Bench) -> Outcome:
    """Return the outcome of the check that `--batch-size max` finds a batch size with which a run succeeds."""
    # Of BERT: its batches are drawn in no time, however large.
    limit = None if bench.device == "cuda" else GIBI
    result = bench.run(
        "bert-base",
        precision="amp-bf16",
        batch_size="max",
        memory_limit=limit,
        canonical_steps=1,
        warmup=1,
        steps=3,
    )
    if result.failure is not None:
        return failed(result)
    note = next((note for note in result.notes if note.startswith("batch_size max is")), "")
    peak = result.metric("peak-device-memory")
    figures = {
        "batch_size": result.spec.batch_size,
        "peak_device_memory": None if peak is None else peak.value,
    }
    return Outcome(largest_found(result.ok, note), note, figures, (result.id,))


def largest_found(ok: bool, note: str) -> str:
    """Return the outcome of a search for the largest batch: `fail`, `pass` or `inconclusive`.

    It is `inconclusive` if the search was not finished.

    Args:
        ok: True if the run with the batch size that was found succeeded; else the outcome is `fail`.
        note: The result's note on the search; empty without one.
    """
    if not ok:
        return FAIL
    return PASS if note and "not finished" not in note else INCONCLUSIVE


def overhead(bench: Bench) -> Outcome:
    """Return the outcome of the check that the measuring loop changes a step's time by at most 0.2 % (`OVERHEAD`).

    A step takes about 80 ms on a GPU.
    """
    sources = [ROOT / "src", ROOT / "plugins" / "dlperf-torch" / "src"]
    actual = [*map(str, sources), *filter(None, [os.environ.get("PYTHONPATH")])]
    command = [
        bench.python or sys.executable,
        str(ROOT / "scripts" / "gpu_overhead.py"),
        "--device",
        bench.device,
    ]
    if bench.device == "cpu":
        command += ["--size", "32", "--step", "0.02", "--steps", "2", "--pairs", "6", "--precision", "fp32"]
    ended = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(actual)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        last = (ended.stderr.strip().splitlines() or ["nothing on standard error"])[-1]
        return Outcome(FAIL, f"{command[0]} ended with exit code {ended.returncode}: {last}")
    message = json.loads(ended.stdout.strip().splitlines()[-1])
    return overhead_small(message["rows"], message)


def overhead_small(rows: Sequence[Mapping[str, Any]], message: Mapping[str, Any]) -> Outcome:
    """Return an outcome: `pass` if the time of the measuring loop, relative to a bare loop, is within 1 ± 0.002.

    The time is known as an interval. The outcome is `fail` if the interval is outside of these limits (`OVERHEAD`), and
    `inconclusive` if it contains one of them.

    Args:
        rows: Two comparisons that `gpu_overhead.py` printed, JSON objects with `ratio`, `pairs` and
            `b_seconds_per_step`: the measuring loop against the bare loop, then the bare loop against itself.
        message: The JSON object that `gpu_overhead.py` printed; it becomes the figures of the outcome.
    """
    ratio, noise = rows[0]["ratio"], rows[1]["ratio"]
    low, high = ratio["interval"]
    step = rows[0]["b_seconds_per_step"]["median"]
    output = (
        f"Around a step of {step * 1e3:.1f} ms, {rows[0]['pairs']} pairs: {ratio['median']:.4f} "
        f"({low:.4f} – {high:.4f}) of the bare loop's time; that against itself {noise['median']:.4f} "
        f"({noise['interval'][0]:.4f} – {noise['interval'][1]:.4f})."
    )
    if low >= 1 - OVERHEAD and high <= 1 + OVERHEAD:
        return Outcome(PASS, output, message)
    outside = high < 1 - OVERHEAD or low > 1 + OVERHEAD
    return Outcome(FAIL if outside else INCONCLUSIVE, output, message)


def failed(result: Result) -> Outcome:
    """Return the outcome `fail` for the result of a run that should have succeeded, with the message of its failure."""
    return Outcome(FAIL, f"The run ended as {result.status!r}: {_why(result)}", results=(result.id,))


def _why(result: Result) -> str:
    return "no failure" if result.failure is None else result.failure.message.partition("\n")[0]


PARITY: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    # First without what the plugin chooses on a GPU, and with a compiler.
    "resnet50-amp-fp16-plain": ("resnet50", {"precision": "amp-fp16", "options": {"cuda_graph": False}}),
    "bert-base-amp-bf16-plain": ("bert-base", {"precision": "amp-bf16", "options": {"cuda_graph": False}}),
    "bert-base-amp-bf16-inductor": ("bert-base", {"precision": "amp-bf16", "compiler": "inductor"}),
    **{
        f"{model}-{precision}": (model, {"precision": precision})
        for model in ("resnet50", "bert-base")
        for precision in sorted(Registry().framework("torch").capabilities.precisions)
    },
}
"""Name → model, and fields of its case."""
CHECKS: tuple[Check, ...] = (
    Check("doctor", 30, doctor),
    *(
        Check(f"parity-{name}", 180 if "compiler" in case[1] else 90, partial(parity, *case))
        for name, case in PARITY.items()
    ),
    Check("clocks", 90, clocks),
    Check("sensors", 120, sensors),
    Check("out-of-memory", 120, out_of_memory),
    Check("killed-worker", 90, _killed_worker),
    Check("overhead", 240, overhead),
    Check("largest", 400, largest),
)
