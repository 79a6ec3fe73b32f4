"""An ordinary result, for tests that change one thing in it."""

import attrs

from dlperf_sdk import RunSpec
from dlperf_sdk.interfaces.measurer import Metric
from dlperf_sdk.results.result import Environment, Fact, Result, Verdict, Workload

WORKLOAD = Workload(25_557_032, 24_300_000_000, 64, {"kind": "sgd", "source": "a paper"}, "img/s")


def fact(name, role, value, observed=None):
    return Fact(name, role, value, value if observed is None else observed)


def a_result(**changes):
    """An ordinary result; `spec` and `facts` follow from `fields`, what a case is asked for."""
    fields = {"framework": "torch", "model": "resnet50", "topology": "1n2d", **changes.pop("fields", {})}
    spec = RunSpec(**fields)
    facts = [
        fact(field.name, field.metadata["role"], spec.to_dict()[field.name])
        for field in attrs.fields(RunSpec)
        if field.name not in ("options", "labels")
    ]
    facts += [fact(name, "workload", value) for name, value in spec.options.items()]
    values = tuple(200.0 + step for step in range(7))
    metrics = (
        Metric("peak-host-memory", "B", 2.5 * 2**30, None, None, (2.5 * 2**30,), "of one process"),
        Metric("step-time-median", "s", 0.321, 0.31, 0.34, (0.31, 0.312, 0.32, 0.321, 0.33, 0.335, 0.34)),
        Metric("throughput", "img/s", 203.0, 200.0, 206.0, values, "samples over the slowest window"),
    )
    ordinary = {
        "id": "20250131T101502Z-torch-resnet50-1n2d-3f9ac1",
        "status": "ok",
        "failure": None,
        "spec": spec,
        "facts": tuple(facts),
        "metrics": metrics,
        "verdicts": (Verdict("replicas-equal", "integrity", "pass", "All replicas are equal."),),
        "repeats": (),
        "stopping": None,
        "environment": Environment(
            "managed", "3.11.7", "torch==2.13.0", ("python",), {}, "dlperf-torch 0.1.0"
        ),
        "hardware": (
            {"host": "n1", "cpu": {"model": "EPYC", "usable": 2, "logical": 4}, "memory": 16 * 2**30},
        ),
        "workload": WORKLOAD,
        "notes": (),
        "started_at": "2025-01-31T10:15:02+00:00",
        "finished_at": "2025-01-31T10:21:40+00:00",
        "sdk_version": "0.1.0",
    }
    return Result(**{**ordinary, **changes})
