"""Records as a finished case leaves them, for the tests of what is made of records."""

from __future__ import annotations

from typing import Any

import attrs

from dlperf_sdk.interfaces.measurer import Measured
from dlperf_sdk.results.records import BatchAccount, Record, Repeat, Replica, Series, TensorChanges, Window
from dlperf_sdk.results.verdicts import Expected
from dlperf_sdk.spec.protocol import Protocol


def replica(index: int, steps: int = 20, **changes: Any) -> Replica:
    created = Replica(
        index=index,
        device=f"GPU-{index}",
        digest="d" * 64,
        canonical_losses=(7.0, 6.5, 6.0),
        warmup_losses=(6.0, 5.9),
        losses=tuple(5.0 - 0.01 * step for step in range(steps)),
        changes={"parameters": TensorChanges(2, (), ()), "moments": TensorChanges(2, (), ())},
        batches=BatchAccount(steps, ()),
        audit_losses=(7.0, 6.5, 6.0),
        exchanged=None,
    )
    return attrs.evolve(created, **changes)


def record(
    rank: int = 0, attempt: int = 0, step_times: tuple[float, ...] = (0.1,) * 20, **changes: Any
) -> Record:
    steps = len(step_times)
    created = Record(
        request="case",
        attempt=attempt,
        rank=rank,
        node=0,
        clock="blocking",
        window=Window(100.0, 100.0 + sum(step_times)),
        samples=4 * steps,
        step_times=step_times,
        data_waits=(0.001,) * steps,
        replicas=(replica(rank, steps),),
        deviation=1e-7,
        updates=steps,
        audit_step_times=(0.1,) * 3,
        audit_seeded=True,
        skipped_steps=0,
        prefetched_batches=0,
        input_queue=None,
        peak_host_memory=1000 + rank,
        peak_device_memory=2000 + rank,
        phases={},
        facts={"devices": ["NVIDIA H200"]},
        observed={"precision": "fp32"},
    )
    return attrs.evolve(created, **changes)


def repeat(attempt: int = 0, ranks: int = 1, series: tuple[Series, ...] = (), **changes: Any) -> Repeat:
    return Repeat(attempt, tuple(record(rank, attempt, **changes) for rank in range(ranks)), series)


def repeats(count: int = 3, ranks: int = 1, **changes: Any) -> tuple[Repeat, ...]:
    return tuple(repeat(attempt, ranks, **changes) for attempt in range(count))


def expected(**changes: Any) -> Expected:
    """What the records above hold."""
    protocol = Protocol("quick", warmup=2, steps=20, repeats=3, max_repeats=3, canonical_steps=3)
    created = Expected("case", 1, 1, 4, "fp32", "all_reduce", protocol)
    return attrs.evolve(created, **changes)


def measured(actual: tuple[Repeat, ...], **changes: Any) -> Measured:
    created = Measured(actual, "img/s", 4, len(actual[0].records) if actual else 1, "cuda", "fp32", 10**9)
    return attrs.evolve(created, **changes)


def counter(
    name: str, device: str, rate: float, start: float, end: float, step: float, node: int = 0
) -> Series:
    """A counter that grows by `rate` a second, from an arbitrary value."""
    count = round((end - start) / step) + 1
    times = tuple(start + step * index for index in range(count))
    return Series(node, name, device, "J", "counter", times, tuple(500.0 + rate * (t - start) for t in times))


def gauge(
    name: str, device: str, values: tuple[float, ...], start: float, step: float, node: int = 0
) -> Series:
    times = tuple(start + step * index for index in range(len(values)))
    return Series(node, name, device, "W", "gauge", times, values)
