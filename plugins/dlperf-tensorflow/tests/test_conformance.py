"""TensorFlow is held to what every framework's plugin is held to, in the environment that users run in.

And to what only its parameter servers do: they are processes of their own, on nodes where nobody else may be.
"""

import os
import signal
import uuid

import attrs
import pytest

from dlperf_sdk.hookspecs import hookimpl
from dlperf_sdk.testing import FrameworkConformance
from dlperf_sdk.testing.leftovers import MARK, list_live_processes


class TestTensorFlow(FrameworkConformance):
    framework = "tensorflow"
    # Compilers and strategies are tried with the first that does not refuse them: XLA takes BERT in seconds.
    models = ("bert-base", "resnet50")

    @pytest.mark.parametrize(
        ("topology", "micro_batches"),
        [
            # The suite's own run, where that is at hand.
            pytest.param("1n2d", {}, marks=pytest.mark.xdist_group("bert-base-parameter_server_async")),
            ("2n1d", {"accumulation": 2}),
        ],
    )
    def test_parameter_servers(self, topology, micro_batches):
        """One trainer records for all replicas, whose losses differ and fall; nobody's memory is taken for all. The
        samples are those of whole batches, in micro-batches as well."""
        spec = self.spec("bert-base", topology=topology, strategy="parameter_server_async", **micro_batches)
        if micro_batches:
            spec = attrs.evolve(spec, env={})  # as many threads as servers take for themselves
        result = self.require_valid_result(spec)
        (record,) = result.repeats[0].records
        assert (record.clock, record.samples) == ("lagged", 3 * 2 * self.batch_size)
        assert [(one.index, one.device) for one in record.replicas] == [(0, "cpu:0"), (1, "cpu:1")]
        first, second = (one.canonical_losses for one in record.replicas)
        assert first[0] != second[0]
        assert record.observed["strategy"] == "parameter_server_async"
        nodes = int(topology[0])
        assert record.facts["parameter_servers"] == [_cpu("ps", node) for node in range(nodes)]
        assert record.facts["devices"] == [_cpu("worker", 0), _cpu("worker", 1)]
        verdicts = {one.name: one.outcome for one in result.verdicts}
        assert verdicts["replicas-equal"] == "not-applicable"
        exits = [(one.node, one.role, one.signal) for one in result.repeats[0].exits]
        assert sorted(exits) == sorted(
            [
                *((node, "service", "SIGTERM") for node in range(nodes)),
                (0, "service", "SIGTERM"),
                (nodes - 1, "service", "SIGTERM"),
                (0, "trainer", None),
            ]
        )

    @pytest.mark.parametrize("server", ["service-0", "service-2"])
    def test_a_killed_server_is_named(self, server, tmp_path):
        """Without word from the agent TensorFlow would wait for it, or go on with the others and be slower: the first
        is a parameter server, the last a worker. The trainer is ended then, and leaves no file."""
        mark = uuid.uuid4().hex
        spec = self.spec(
            "bert-base",
            topology="1n2d",
            strategy="parameter_server_async",
            env={MARK: mark, "TMPDIR": str(tmp_path)},
            steps=100_000,
        )
        failure = self.run_case(spec, [_Killer(server)]).failure
        assert (failure.kind, failure.node, failure.rank) == ("crashed", 0, None)
        assert failure.message.startswith(f"{server}, which the trainers need, was ended by SIGKILL")
        assert not list_live_processes(mark)
        assert not [path for path in tmp_path.rglob("*") if not path.is_dir()]


class _Killer:
    """Kills a process as soon as the trainer is in the window."""

    def __init__(self, name):
        self.name, self.pids = name, {}

    @hookimpl
    def dlperf_worker_started(self, name, pid):
        self.pids[name] = pid

    @hookimpl
    def dlperf_step_progress(self, phase):
        if phase == "measure" and self.name in self.pids:
            os.kill(self.pids.pop(self.name), signal.SIGKILL)


def _cpu(job, task):
    return f"/job:{job}/replica:0/task:{task}/device:CPU:0"
