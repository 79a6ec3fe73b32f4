"""Real runs whose batches come from a queue that a Python thread fills."""

from __future__ import annotations

import pytest

from dlperf_sdk import run

pytestmark = pytest.mark.long

SHORT = {"batch_size": 4, "canonical_steps": 2, "warmup": 2, "steps": 20, "repeats": 1, "store": None}


@pytest.mark.parametrize("topology", ["1n1d", "1n2d"])
def test_a_run_records_what_the_queues_did(topology):
    result = run("numpy", "linear", topology=topology, data="python-queue", **SHORT)
    assert result.status == "ok", result.failure
    outcomes = {verdict.name: verdict.outcome for verdict in result.verdicts if verdict.kind == "integrity"}
    assert set(outcomes.values()) == {"pass"}, outcomes
    records = result.repeats[0].records
    assert len(records) == result.spec.topology.devices
    for record in records:
        assert record.observed["data"]["source"] == "python-queue"
        assert record.prefetched_batches == 3
        # At the edges of the window, at most three batches are ready or being counted.
        assert abs(record.input_queue.batches - 20) <= 4
        assert record.input_queue.seconds > 0
        assert record.input_queue.depth <= 2 * record.input_queue.batches
    assert result.metric("input-rate").value > 0 and result.metric("input-rate").unit == "samples/s"
    assert 0 <= result.metric("input-queue-depth").value <= 2


def test_a_source_without_a_queue_has_no_such_metrics():
    result = run("numpy", "linear", **SHORT)
    assert result.repeats[0].records[0].input_queue is None
    assert not {"input-rate", "input-queue-depth"} & {metric.name for metric in result.metrics}
