"""What trackers write of a result."""

import json

import attrs
from dlperf_trackers.tracked_run import TrackedRun

from dlperf_sdk import Metric, Result
from dlperf_sdk.results.redact import redact_result


def test_it_has_parameters_metrics_with_intervals_and_verdicts(result):
    run = TrackedRun.from_result(result)
    throughput = result.metric("throughput")
    assert run.metrics["throughput"] == throughput.value
    assert (run.metrics["throughput_low"], run.metrics["throughput_high"]) == (
        throughput.low,
        throughput.high,
    )
    assert run.repeats["throughput"] == throughput.repeats and len(throughput.repeats) == 6
    assert run.tags["unit.throughput"] == "samples/s"
    assert run.parameters["framework"] == "numpy" and run.parameters["batch_size"] == 4
    assert run.parameters["device"] == "cpu", "the observed value takes precedence over the requested one"
    assert "container" not in run.parameters, "it has no value"
    assert run.verdicts == {verdict.name: verdict.outcome for verdict in result.verdicts}
    assert run.verdicts["parity"] == "pass" and run.ok
    assert Result.from_dict(json.loads(run.files["result.json"])).to_dict() == result.to_dict()
    assert run.files["report.md"].startswith("## ") and "replicas-equal" in run.files["report.md"]


def test_a_metric_without_interval_has_only_its_median(result):
    metrics = (
        Metric("peak-host-memory", "B", 2.5, None, None, (2.5, 2.5), ""),
        Metric("peak_host_memory", "B", 7, 6, 8),
    )
    run = TrackedRun.from_result(attrs.evolve(result, metrics=metrics))
    assert run.metrics == {
        "peak_host_memory": 2.5,
        "peak_host_memory_2": 7,
        "peak_host_memory_2_low": 6,
        "peak_host_memory_2_high": 8,
    }


def test_control_characters_are_replaced(result):
    (fact, *others) = result.facts
    run = TrackedRun.from_result(
        attrs.evolve(result, facts=(attrs.evolve(fact, observed="a\x1b[31mb"), *others))
    )
    assert "\x1b" not in run.parameters[fact.name]


def test_a_redacted_result_has_no_host_name(result):
    (node, *_) = result.hardware
    named = attrs.evolve(result, hardware=({**node, "host": "gpu-17.example.org"},))
    assert "gpu-17" in str(TrackedRun.from_result(named).files)
    assert "gpu-17" not in str(TrackedRun.from_result(redact_result(named)))
