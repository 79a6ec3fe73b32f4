"""Test the function that lists the processes of a case: a node lists its own without the addresses of all nodes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import attrs

from dlperf_sdk.registry.options import options_of
from dlperf_sdk.testing.conformance import advice
from dlperf_sdk.testing.subject import FrameworkSubject
from dlperf_sdk.worker.processes import Cluster, Process, nodes_from, port_count, unknown_nodes
from dlperf_sdk.worker.request import resolve

_NODES, _DEVICES = 3, 2
_FACTS: dict[str, dict[str, Any]] = {
    str(node): {
        "host": f"10.0.0.{node}",
        "ports": [str(20000 + 100 * node + port) for port in range(port_count(_DEVICES))],
        "devices": [f"device-{node}-{device}" for device in range(_DEVICES)],
        "interface": f"eth{node}",
    }
    for node in range(_NODES)
}
_TABLE = {
    number: {name: value for name, value in facts.items() if name != "devices"}
    for number, facts in _FACTS.items()
}
"""What a node gets if its processes need the addresses of other nodes."""


class ProcessList(FrameworkSubject):
    """Tests of the function that lists the processes. They start none."""

    def test_nodes_list_their_processes_with_the_addresses_that_they_get(self) -> None:
        """With the addresses that a node gets, the plugin lists the same processes of the node as with all addresses.

        In a run, a node first gets only its own addresses and those of node 0. It gets the addresses of all nodes if
        the list then has placeholders for those of another node, such as `<host of node 2>`. Each declared device and
        strategy is tried, on three nodes of two devices. No process is started.
        """
        capabilities = self.plugin.capabilities
        for device, strategy in product(sorted(capabilities.devices), sorted(capabilities.strategies)):
            for node in range(1, _NODES):
                expected = self._processes(device, strategy, node, _FACTS)
                actual = self._processes(
                    device, strategy, node, {key: _FACTS[key] for key in ("0", str(node))}
                )
                if unknown_nodes(actual):
                    actual = self._processes(device, strategy, node, _TABLE | {str(node): _FACTS[str(node)]})
                assert actual == expected, advice(
                    f"With {strategy} on {device}, node {node} of {_NODES} lists {actual}; with the addresses of all "
                    f"nodes, it lists {expected}.",
                    "a node learns the address of another node only if the placeholder of that node, such as `<host "
                    "of node 2>`, is in the variables of its own processes: these workers would not find each other",
                    "write addresses and ports into the variables as they are, neither encoded nor computed with; "
                    "devices of other nodes are not known",
                )

    def _processes(
        self, device: str, strategy: str, node: int, known: Mapping[str, Mapping[str, Any]]
    ) -> list[Process]:
        """Return the processes of one node, as a node lists them that knows some nodes."""
        spec = self.spec(self.models_to_test()[0], device=device, strategy=strategy)
        options = attrs.asdict(options_of(self.plugin, spec))
        cluster = Cluster(nodes_from(_NODES, _DEVICES, known), device, strategy, options)
        return [process for process in resolve(self.plugin.processes)(cluster) if process.node == node]
