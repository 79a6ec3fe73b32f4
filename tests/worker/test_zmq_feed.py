"""Real runs whose batches are sent by another process, and the end of that process."""

from __future__ import annotations

import os
import signal

import pytest

from dlperf_sdk import run
from dlperf_sdk.hookspecs import hookimpl
from dlperf_sdk.worker.loading import PREFETCH

pytestmark = pytest.mark.long

SHORT = {"batch_size": 4, "canonical_steps": 2, "warmup": 2, "repeats": 1, "store": None}


@pytest.mark.parametrize(("source", "topology"), [("zmq", "1n2d"), ("zmq", "2n1d"), ("zmq-tcp", "1n2d")])
def test_a_sender_per_replica_sends_the_batches_that_are_due(source, topology):
    result = run("numpy", "linear", topology=topology, data=source, steps=20, **SHORT)
    assert result.status == "ok", result.failure
    outcomes = {verdict.name: verdict.outcome for verdict in result.verdicts if verdict.kind == "integrity"}
    assert set(outcomes.values()) == {"pass"}, outcomes
    repeat = result.repeats[0]
    assert [left.role for left in repeat.exits].count("service") == len(repeat.records) == 2
    for record in repeat.records:
        assert record.observed["data"]["source"] == source
        assert set(record.observed["data"]["sender_cpus"]) <= os.sched_getaffinity(0)
        assert record.replicas[0].batches.compared == 20
        assert record.prefetched_batches == PREFETCH
        assert record.input_queue.batches == 20
        assert record.input_queue.seconds > 0
        assert 20 <= record.input_queue.depth <= PREFETCH * 20
    assert result.metric("input-rate").value > 0 and result.metric("input-rate").unit == "samples/s"
    assert 1 <= result.metric("input-queue-depth").value <= PREFETCH


class KillsSender:
    """Kills the sender as soon as the trainer is in the window."""

    @hookimpl
    def dlperf_worker_started(self, name, pid):
        if name == "service-0":
            self.pid = pid

    @hookimpl
    def dlperf_step_progress(self, phase):
        if phase == "measure" and self.pid is not None:
            os.kill(self.pid, signal.SIGKILL)
            self.pid = None


def test_the_end_of_a_sender_is_a_failure_that_names_it():
    result = run("numpy", "linear", data="zmq", steps=100_000, observers=[KillsSender()], **SHORT)
    assert result.failure is not None and result.failure.kind == "crashed"
    assert result.failure.message.startswith("service-0, which the trainers need, was ended by SIGKILL")
