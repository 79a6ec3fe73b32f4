"""Build the commands of a node's workers: command, variables, processors. All launch decisions are made here."""

import os
from typing import Any, Dict, List, Mapping, NamedTuple, Tuple

from dlperf_sdk.worker.agent.affinity import core_count, cpus_by_numa, share, thread_variables
from dlperf_sdk.worker.gpu import devices
from dlperf_sdk.worker.processes import Process, names_of, unknown_nodes
from dlperf_sdk.worker.request import Request, resolve
from dlperf_sdk.worker.variables import worker_environment


class Place(NamedTuple):
    """A node's number, and its index among the nodes on the same machine."""

    node: int
    host_index: int
    """Index among the nodes on the same machine, from 0: they share its processors and devices."""
    host_count: int
    """Number of nodes on the same machine."""


Nodes = Mapping[str, Mapping[str, Any]]
"""The known fields of nodes, as for `processes.nodes_from`."""


def needs_other_nodes(request: Request, node: int, facts: Mapping[str, Any]) -> bool:
    """Return True if variables of a node's processes contain the address of a node other than this one and node 0.

    If the plugin's function raises an exception, the value is False: the start of the workers will report it.

    Args:
        request: The case.
        node: The node's number.
        facts: Its fields of `processes.Node`.
    """
    try:
        processes = resolve(request.processes)(request.cluster({str(node): facts}))
        return bool(unknown_nodes(process for process in processes if process.node == node) - {0})
    except Exception:
        return False


def orders_for(
    request: Request, nodes: Nodes, place: Place, bundle: str, file: str = "request.json"
) -> Tuple[List[Process], List[Dict[str, Any]]]:
    """Return this node's processes, and what the agent needs to start each.

    Processes with devices get equal shares of the machine's processors, and as many threads as their share has
    cores. Those without devices (schedulers, parameter servers) may use all processors.

    Args:
        request: The case.
        nodes: This node, node 0, and those whose addresses this node's processes need.
        place: This node.
        bundle: The directory from which workers import.
        file: The request's file in the bundle.

    Returns:
        Two lists of the same length: the processes, and for each a dict with `name`, `command` (without the worker's
        arguments), `environment` (all variables), `cpus` (processor numbers; empty for all), and `request` (the path
        of its file).

    Raises:
        ValueError: The variables of a process contain something of another node that this node does not know.
    """
    cluster = request.cluster(nodes)
    processes = resolve(request.processes)(cluster)
    workers = [
        (name, process) for name, process in zip(names_of(processes), processes) if process.node == place.node
    ]
    for number in unknown_nodes(process for _, process in workers):
        raise ValueError("a variable contains a device of node %d, which only node 0 knows" % number)
    computing = [process for _, process in workers if process.devices]
    cores = cpus_by_numa()
    orders = []
    for name, process in workers:
        cpus: Tuple[int, ...] = ()
        if process.devices:
            index = place.host_index * len(computing) + computing.index(process)
            cpus = share(cores, index, len(computing) * place.host_count)
        devices_of_process = [cluster.nodes[place.node].devices[device] for device in process.devices]
        threads = thread_variables(core_count(cpus)) if cpus else {}
        launch = dict(devices.visible(cluster.device, devices_of_process), **process.variables)
        orders.append(
            {
                "name": name,
                "command": list(request.command) + ["-I", "-u", os.path.join(bundle, "__main__.py")],
                "environment": worker_environment(os.environ, dict(threads, **request.variables), launch),
                "cpus": list(cpus),
                "request": os.path.join(bundle, file),
            }
        )
    return [process for _, process in workers], orders
