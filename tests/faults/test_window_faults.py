"""Trainers that go wrong behind their first steps, in this process: their windows fail to be verified."""

from __future__ import annotations

import pytest
import toy_faults
from dlperf_numpy import worker

from dlperf_sdk.planning.plan import make_plan
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.convert import record_from_dict
from dlperf_sdk.results.integrity import Expected
from dlperf_sdk.results.records import Repeat
from dlperf_sdk.results.result import FAIL, INCONCLUSIVE, PASS
from dlperf_sdk.results.window_verification import window_verified
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.worker import programs
from dlperf_sdk.worker.processes import Cluster, Node, one_per_device
from dlperf_sdk.worker.progress import Progress

PLAN = make_plan(
    RunSpec(framework="numpy", model="linear", batch_size=8, warmup=4, steps=5, repeats=1), Registry()
)
EXPECTED = Expected("toy", 1, 1, 8, "fp32", "all_reduce", PLAN.protocol)


def window_of(trainer, directory):
    """Return the verdict on what the program `measure` records of a trainer."""
    request = PLAN.request("toy", ("python",), {}, {"source": "synthetic"})
    cluster = Cluster((Node("127.0.0.1", ("0",), ("cpu:0",)),), "cpu", "all_reduce")
    process = one_per_device(cluster)[0]
    runtime = worker.Runtime(request, cluster, process)
    runtime.start()
    progress = Progress(str(directory / "progress"))
    task = programs.Task(
        runtime, trainer(runtime, request, process), request, cluster, process, progress, lambda: None
    )
    head = {"request": "toy", "attempt": 1, "rank": 0, "node": 0, "status": "ok", "failure": None}
    record = record_from_dict({**head, "facts": {}, "observed": {}, **programs.measure(task)})
    return window_verified((Repeat(1, (record,)),), EXPECTED)


class CannotBeReset(worker.Linear):
    def reset(self):
        if self.steps:
            raise NotImplementedError
        super().reset()


class StopsAndCannotBeReset(toy_faults.ForwardOnly):
    def train(self, batch, rate):
        return super().train(batch, rate) if self.steps <= 4 else self.go_wrong(batch, rate)

    def reset(self):
        if self.steps:
            raise NotImplementedError
        super().reset()


def test_correct_trainer_passes(tmp_path):
    actual = window_of(worker.Linear, tmp_path)
    assert actual.outcome == PASS, actual


@pytest.mark.parametrize(
    "trainer",
    [
        toy_faults.ForwardOnly,
        toy_faults.ForwardOnlyEverySecondStep,
        toy_faults.ForwardOnlyAtRandom,
        toy_faults.ZeroLearningRate,
        toy_faults.HalfLearningRate,
        toy_faults.HalfBatch,
        toy_faults.StaleBatch,
        toy_faults.StaleGradient,
        toy_faults.ForwardOnlyUntilReset,
        toy_faults.ForwardOnlyAtRandomUntilReset,
        toy_faults.NoWorkUntilReset,
        toy_faults.OtherSeedAfterFirstSteps,
        toy_faults.HalfBatchesAfterFirstSteps,
    ],
)
def test_faulty_trainer_fails(trainer, tmp_path):
    actual = window_of(trainer, tmp_path)
    assert actual.outcome == FAIL, actual


def test_unchanged_state_fails_without_an_audit(tmp_path):
    actual = window_of(StopsAndCannotBeReset, tmp_path)
    assert actual.outcome == FAIL
    assert "1 of 1 parameters did not change" in actual.detail


def test_a_trainer_that_cannot_be_reset_is_inconclusive(tmp_path):
    actual = window_of(CannotBeReset, tmp_path)
    assert actual.outcome == INCONCLUSIVE
    assert "cannot be reset" in actual.detail
