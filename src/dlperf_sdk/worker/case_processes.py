"""List all processes of a case: those of the framework's plugin, and the senders of its data source."""

from typing import List, Optional

from dlperf_sdk.worker.processes import SERVICE, TRAINER, Cluster, Process, port_count
from dlperf_sdk.worker.request import resolve


def list_case_processes(processes: str, batch_sender: Optional[str], cluster: Cluster) -> List[Process]:
    """Return the processes of the framework's plugin; then, if the data source has senders, one sender per replica.

    A sender runs on the node of the replica's trainer. The plugin's function does not get the senders' ports.

    Args:
        processes: `module:attribute` of the plugin's function, which lists the processes of a cluster.
        batch_sender: `module:function` that a sender calls; None if the data source has no senders.
        cluster: All nodes of the case; each has three ports per device and four more, as `processes.port_count` counts.

    Returns:
        The plugin's processes in its order, then the senders in the order of the replicas of these processes.

    Raises:
        ImportError: The module of the plugin's function cannot be imported.
        AttributeError: The module has no such function.
        Unsupported: The plugin does not have the strategy. Other exceptions of the plugin's function pass through, too.
    """
    nodes = tuple(
        node._replace(ports=node.ports[: port_count(len(node.devices)) - len(node.devices)])
        for node in cluster.nodes
    )
    listed: List[Process] = resolve(processes)(cluster._replace(nodes=nodes))
    if batch_sender is None:
        return listed
    senders = [
        Process(SERVICE, trainer.node, {}, target=batch_sender, feeds=replica)
        for trainer in listed
        if trainer.role == TRAINER
        for replica in trainer.replicas
    ]
    return [*listed, *senders]
