"""The layouts of processes by strategy: those that plugins declare, and no other."""

from __future__ import annotations

from importlib import import_module

import pytest

from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.worker.processes import Cluster, Node, one_per_device
from dlperf_sdk.worker.unsupported import Unsupported

FRAMEWORKS = ("jax", "mxnet", "oneflow", "paddle", "tensorflow", "torch")


def cluster_of(framework: str, devices: int, strategy: str) -> Cluster:
    ports = tuple(map(str, range(5000, 5000 + 2 * devices + 4)))
    node = Node("127.0.0.1", ports, tuple(f"cpu:{device}" for device in range(devices)))
    options = {"one_process_per_node": False}  # the only option that layouts read
    return Cluster((node,), "cpu", strategy, options)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_plugin_lays_out_the_strategies_that_it_declares(framework: str) -> None:
    module = import_module(f"dlperf_{framework}.processes")
    assert set(module.STRATEGIES) == Registry().framework(framework).capabilities.strategies
    for strategy in module.STRATEGIES:
        processes = module.processes(cluster_of(framework, 2, strategy))
        replicas = [replica for process in processes for replica in process.replicas]
        assert sorted(replicas) == [0, 1], strategy


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_an_unknown_strategy_is_refused_where_it_has_an_effect(framework: str) -> None:
    module = import_module(f"dlperf_{framework}.processes")
    with pytest.raises(
        Unsupported, match=r"no strategy 'al_reduce' \(did you mean 'all_reduce'\?\); choose one of"
    ):
        module.processes(cluster_of(framework, 2, "al_reduce"))
    alone = cluster_of(framework, 1, "al_reduce")
    assert module.processes(alone) == one_per_device(alone)
