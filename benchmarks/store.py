"""What a large store costs: loading, filtering and summarizing 100, 1,000 and 10,000 results.

    .venv/bin/python benchmarks/store.py [--results 100,1000,10000]

The results have the size that the protocol dlperf-v1 gives them (7 repeats of 100 steps, one process each): 9 KB of
their own and about 150 KB of records, of two models, three frameworks, four topologies and two precisions. Each is
checked against its schema when it is loaded; its records are read where a stage asks for them (`records`, of the first
100). Every size is measured in a process of its own; its files have been read once before, so that they come from
memory. `growth` is the time for each result against that in the next smaller store: 1 is linear. The largest store
takes 1.5 GB of the disk.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any
from unittest import mock

import attrs

from dlperf_sdk.interfaces.measurer import Measured
from dlperf_sdk.measurers.step_time import StepTime
from dlperf_sdk.measurers.throughput import Throughput
from dlperf_sdk.results.records import BatchAccount, Repeat, TensorChanges, Window
from dlperf_sdk.results.result import Environment, Fact, Result, Workload
from dlperf_sdk.results.store import ResultStore
from dlperf_sdk.results.verdicts import Expected, judge
from dlperf_sdk.spec.run_spec import RunSpec

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
import record_samples

REPEATS, STEPS, WARMUP, CANONICAL = 7, 100, 20, 5
READ = 100
CASES = tuple(
    product(
        ("resnet50", "bert-base"),
        ("torch", "oneflow", "tensorflow"),
        ("1n1d", "1n2d", "1n4d", "1n8d"),
        ("fp32", "amp-fp16"),
    )
)
ID = "20250101T000000Z-case-000000"


def main() -> None:
    """Measure each size of store, and print a line for each stage."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", default="100,1000,10000", help="sizes of stores, with commas between")
    parser.add_argument("--measure", help="a store, to be measured in this process")
    words = parser.parse_args()
    if words.measure:
        print(json.dumps(measure(Path(words.measure))))
        return
    sizes = sorted(map(int, words.results.split(",")))
    print(f"{'results':>8} {'stage':<10} {'s':>9} {'ms each':>9} {'growth':>7}   memory")
    before: dict[str, float] = {}
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="dlperf-bench-") as scratch:
            written = fill(Path(scratch), size)
            actual = in_process(Path(scratch))
        for stage, seconds in actual["seconds"].items():
            item = seconds / size
            growth = f"{item / before[stage]:7.2f}" if stage in before else f"{'':7}"
            print(f"{size:>8,} {stage:<10} {seconds:>9.3f} {1e3 * item:>9.3f} {growth}")
            before[stage] = item
        peak, start = actual["peak"], actual["start"]
        print(
            f"{size:>8,} {'memory':<10} {written / 1e6:,.0f} MB on disk, {(peak - start) / 1e6:,.0f} MB of memory"
        )


def in_process(store: Path) -> dict[str, Any]:
    """Measure a store in a process of its own, and return what `measure` does.

    Raises:
        subprocess.CalledProcessError: The process failed.
    """
    command = [sys.executable, __file__, "--measure", str(store)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    actual: dict[str, Any] = json.loads(done.stdout)
    return actual


def measure(path: Path) -> dict[str, Any]:
    """Return `seconds` by stage, and this process's peak of memory before (`start`) and after (`peak`), in bytes.

    `path` is the directory of a store.

    Raises:
        SystemExit: A result cannot be read or is not valid.
    """
    from dlperf_sdk.analysis import cases, speedup
    from dlperf_sdk.exchange.csv_table import to_csv
    from dlperf_sdk.reports import results_table, terminal

    for file in path.glob("*/result.json"):
        file.read_bytes()
    start = _memory()
    seconds: dict[str, float] = {}

    def timed(stage: str, work: Callable[[], Any]) -> Any:
        started_at = perf_counter()
        value = work()
        seconds[stage] = perf_counter() - started_at
        return value

    results = timed("load", lambda: list(ResultStore(path)))
    if not all(isinstance(result, Result) and result.ok for result in results):
        raise SystemExit(f"There are results in {path} that cannot be read, or that do not stand.")
    chosen = timed(
        "filter",
        lambda: [
            result
            for result in results
            if result.spec.framework == "torch" and result.spec.topology.devices > 1
        ],
    )
    if not chosen:
        raise SystemExit("Nothing was left by the filter.")
    several_of = results[:READ]
    timed("records", lambda: [tuple(result.repeats) for result in several_of])
    seconds["records"] *= len(results) / len(several_of)
    known = timed("cases", lambda: cases(results))
    one = {case.facts["topology"]: case for case in known[: len(CASES)]}
    timed("speedup", lambda: [speedup(case, one.values()) for case in known])
    text = timed("report", lambda: terminal.text_of(results_table.pages(results), width=120))
    if "contradicts" in text:
        raise SystemExit("The results that were made up contradict themselves.")
    timed("csv", lambda: to_csv(results))
    return {"seconds": seconds, "start": start, "peak": _memory()}


def _memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def fill(store: Path, size: int) -> int:
    """Write `size` results into a store, and return their size in bytes."""
    created = [files_of(result) for result in results()]
    written = 0
    for number in range(size):
        name = f"20250101T{number // 3600 % 24:02}{number // 60 % 60:02}{number % 60:02}Z-case-{number:06}"
        for path, text in created[number % len(created)].items():
            target = store / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            written += target.write_text(text.replace(ID, name), encoding="utf-8")
    return written


def files_of(result: Result) -> dict[str, str]:
    """Return path in the run's directory → text of the files that a report reads, as the store writes them.

    Nothing waits for the disk.
    """
    with tempfile.TemporaryDirectory(prefix="dlperf-bench-") as scratch, mock.patch("os.fsync"):
        ResultStore(scratch).open_run(result.id).write_result(result)
        run = Path(scratch) / result.id
        return {str(path.relative_to(run)): path.read_text() for path in sorted(run.rglob("*.json"))}


def results() -> Iterator[Result]:
    """Yield one result of each of `CASES`, with steps that vary by 2 %."""
    noise = random.Random(0)
    for model, framework, topology, precision in CASES:
        spec = RunSpec(framework=framework, model=model, topology=topology, precision=precision)
        yield result_of(spec, noise)


def result_of(spec: RunSpec, noise: random.Random) -> Result:
    """Return a valid result of a spec; `noise` draws its step times and losses."""
    unit = "img/s" if spec.model == "resnet50" else "seq/s"
    repeats = tuple(_repeat_of(spec, attempt, noise) for attempt in range(1, REPEATS + 1))
    devices = spec.topology.devices
    measured = Measured(repeats, unit, spec.batch_size, devices, "cuda", spec.precision, 24_300_000_000)
    expected = Expected(
        ID, 1, devices, spec.batch_size, spec.precision, spec.strategy, spec.resolved_protocol()
    )
    facts = [
        Fact(field.name, field.metadata["role"], value, value)
        for field in attrs.fields(RunSpec)
        if field.name != "options"
        for value in [spec.to_dict()[field.name]]
    ]
    return Result(
        id=ID,
        status="ok",
        failure=None,
        spec=spec,
        facts=tuple(facts),
        metrics=(*Throughput().summarize(measured), *StepTime().summarize(measured)),
        verdicts=judge(repeats, expected),
        repeats=repeats,
        stopping=None,
        environment=Environment("managed", "3.11.7", "torch==2.13.0\n" * 60, ("python",), {}, "plugin 1.0"),
        hardware=({"host": "node-1", "cpu": {"model": "a processor", "usable": 64, "logical": 64}},),
        workload=Workload(25_557_032, 24_300_000_000, spec.global_batch_size, {"kind": "sgd"}, unit),
        notes=(),
        started_at="2025-01-01T00:00:00+00:00",
        finished_at="2025-01-01T00:10:00+00:00",
        sdk_version="0.1.0",
    )


def _repeat_of(spec: RunSpec, attempt: int, noise: random.Random) -> Repeat:
    """One process that holds all replicas."""
    times = tuple(0.1 * noise.gauss(1, 0.02) for _ in range(STEPS))
    start = noise.uniform(100, 200)
    replicas = tuple(
        record_samples.replica(
            index,
            canonical_losses=tuple(7.0 - 0.1 * step for step in range(CANONICAL)),
            warmup_losses=tuple(noise.gauss(6, 0.1) for _ in range(WARMUP)),
            losses=tuple(noise.gauss(5, 0.1) for _ in range(STEPS)),
            changes={kind: TensorChanges(161, (), ()) for kind in ("parameters", "moments")},
            batches=BatchAccount(STEPS, ()),
            audit_losses=tuple(7.0 - 0.1 * step for step in range(CANONICAL)),
        )
        for index in range(spec.topology.devices)
    )
    record = record_samples.record(
        attempt=attempt,
        step_times=times,
        request=ID,
        clock="event",
        window=Window(start, start + sum(times)),
        samples=spec.batch_size * STEPS * len(replicas),
        data_waits=tuple(abs(noise.gauss(1e-4, 1e-5)) for _ in range(STEPS)),
        replicas=replicas,
        deviation=1e-6 if spec.precision == "fp32" else 1e-3,
        audit_step_times=(0.1,) * CANONICAL,
        peak_host_memory=2**31,
        peak_device_memory=2**34,
        phases={"start": 1.5, "compile": 3.0, "warmup": 2.0, "measure": sum(times)},
        facts={"framework_version": "1.0", "devices": ["GPU"]},
        observed={"precision": spec.precision},
    )
    return Repeat(attempt, (record,))


if __name__ == "__main__":
    main()
