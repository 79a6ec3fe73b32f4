"""Results for reports: any number of them, valid, deterministic, and with everything that a report shows."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

from record_samples import repeat, replica
from result_samples import a_result, fact

from dlperf_sdk.results import metrics
from dlperf_sdk.results.result import Fact, Result, Verdict

FRAMEWORKS = ("torch", "oneflow", "tensorflow", "mxnet")
TOPOLOGIES = ("1n1d", "1n2d", "1n4d", "1n8d", "2n8d")
PRECISIONS = ("fp32", "amp-bf16")
COMPILERS = ("none", "inductor")
BATCHES = (32, 64)
STEPS = 10


def many(count: int) -> Iterator[Result]:
    """So many results: every combination of the above, as often as it takes."""
    chance = random.Random(7)
    combinations = itertools.cycle(itertools.product(BATCHES, COMPILERS, FRAMEWORKS, PRECISIONS, TOPOLOGIES))
    for number, (batch, compiler, framework, precision, topology) in zip(
        range(count), combinations, strict=False
    ):
        fields = {
            "framework": framework,
            "topology": topology,
            "precision": precision,
            "compiler": compiler,
            "batch_size": batch,
        }
        yield case(number, chance, fields)


def case(number: int, chance: random.Random, fields: dict[str, Any], repeats: int = 7) -> Result:
    """One result of seven repeats: a device does a few hundred samples a second, eight a little less than eight
    times that."""
    fields = {"steps": STEPS, "repeats": repeats, "canonical_steps": 3, "warmup": 2, **fields}
    result = a_result(fields=fields)
    devices = result.spec.topology.devices
    rate = 300 * (
        1 + FRAMEWORKS.index(result.spec.framework) / 7 if result.spec.framework in FRAMEWORKS else 1
    )
    rate *= (1.9 if result.spec.precision != "fp32" else 1) * devices**0.95
    memory = 2**33 + number % 7 * 2**28
    step = result.spec.global_batch_size / rate
    times = [tuple(step * chance.lognormvariate(0, 0.03) for _ in range(STEPS)) for _ in range(repeats)]
    name = f"20250131T{number:06d}Z-{result.spec.framework}-resnet50-{result.spec.topology}-{number:06x}"
    actual = tuple(
        repeat(
            at,
            step_times=item,
            audit_step_times=(step,) * 3,
            request=name,
            samples=STEPS * result.spec.global_batch_size,
            replicas=tuple(replica(index, STEPS) for index in range(devices)),
            peak_device_memory=memory,
            observed={"precision": result.spec.precision},
            deviation=1e-7 if result.spec.precision == "fp32" else 4e-3,
        )
        for at, item in enumerate(times, 1)
    )
    rates = [STEPS * result.spec.global_batch_size / sum(time) for time in times]
    middles = [metrics.percentile(time, 50) for time in times]
    measured = (
        metrics.metric("throughput", "img/s", rates),
        metrics.metric("throughput-per-device", "img/s", [rate / devices for rate in rates]),
        metrics.metric("step-time-median", "s", middles),
        metrics.metric("peak-device-memory", "B", [memory] * repeats),
        metrics.metric("device-energy-per-sample", "J", [0.9 + number % 5 / 50] * repeats),
    )
    spread = "fail" if number % 9 == 8 else "pass"
    changes: dict[str, Any] = {
        "id": name,
        "facts": (*result.facts, *CONTEXT),
        "metrics": measured,
        "repeats": actual,
        "verdicts": (
            Verdict("complete-records", "integrity", "pass", "Every record is there."),
            Verdict("finite-loss", "integrity", "pass", "All losses are finite."),
            Verdict("replicas-equal", "integrity", "pass", "All replicas are equal."),
            Verdict("spread", "quality", spread, "The repeats are close together."),
        ),
    }
    return a_result(fields=fields, **changes)


CONTEXT: tuple[Fact, ...] = (
    fact("framework_version", "context", "1.0"),
    fact("transport", "context", "NCCL"),
)
