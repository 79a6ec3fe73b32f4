"""Build the commands of a node's workers: command, variables, processors. All launch decisions are made here."""

import os
from typing import Any, Dict, List, Mapping, NamedTuple, Tuple

from dlperf_sdk.worker.agent.affinity import (
    core_count,
    cpus_by_numa,
    set_aside,
    share,
    thread_variables,
)
from dlperf_sdk.worker.case_processes import list_case_processes
from dlperf_sdk.worker.gpu import devices
from dlperf_sdk.worker.processes import Process, names_of, unknown_nodes
from dlperf_sdk.worker.request import Request
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

    If the plugin's function that lists the processes raises an exception, the value is False: the start of the workers
    will report it.

    Args:
        request: The case.
        node: The node's number.
        facts: The node's fields of `processes.Node` by name, with lists instead of tuples.
    """
    try:
        cluster = request.cluster({str(node): facts})
        processes = list_case_processes(request.processes, request.batch_sender, cluster)
        return bool(unknown_nodes(process for process in processes if process.node == node) - {0})
    except Exception:
        return False


def orders_for(
    request: Request, nodes: Nodes, place: Place, bundle: str, file: str = "request.json"
) -> Tuple[List[Process], List[Dict[str, Any]]]:
    """Return this node's processes, and what the agent needs to start each.

    A process that gets processors of its own has as many threads as these processors have cores.

    Args:
        request: The case.
        nodes: Number of a node in digits → its known fields, as `processes.nodes_from` takes them. It has this node,
            node 0, and the nodes whose addresses this node's processes need.
        place: This node.
        bundle: The directory from which workers import.
        file: The request's file in the bundle.

    Returns:
        Two lists of the same length: the processes, and for each process a dict with `name`, `command` (without the
        worker's arguments), `environment` (all variables), `cpus` (processor numbers; empty for all), and `request`
        (the path of its file). The processes are in the order in which the plugin's function lists them; the senders of
        batches come last. Both lists are empty if this node has no processes.

    Raises:
        ValueError: The variables of a process contain a host, interface, port or device of a node that `nodes` lacks.
        ImportError: The module of the plugin's function cannot be imported.
        AttributeError: The module has no such function.
        Unsupported: The plugin does not have the strategy. Other exceptions of the plugin's function pass through, too.
    """
    cluster = request.cluster(nodes)
    processes = list_case_processes(request.processes, request.batch_sender, cluster)
    workers = [
        (name, process) for name, process in zip(names_of(processes), processes) if process.node == place.node
    ]
    for number in unknown_nodes(process for _, process in workers):
        raise ValueError("a variable contains a device of node %d, which only node 0 knows" % number)
    orders = []
    for (name, process), cpus in zip(workers, _processors([process for _, process in workers], place)):
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


def _processors(processes: List[Process], place: Place) -> List[Tuple[int, ...]]:
    """Return the processors of each of a node's processes; an empty tuple for all processors.

    Processes with devices get equal shares of the machine's processors, from which the senders of their batches get a
    core each. Other processes (schedulers, parameter servers) may use all processors.
    """
    cores = cpus_by_numa()
    computing = [process for process in processes if process.devices]
    of_replica: Dict[int, Tuple[int, ...]] = {}
    shares = []
    for index, process in enumerate(computing, start=place.host_index * len(computing)):
        whole = share(cores, index, len(computing) * place.host_count)
        fed = {sender.feeds for sender in processes if sender.feeds is not None} & set(process.replicas)
        remaining, others = set_aside(whole, len(fed))
        of_replica.update(zip(sorted(fed), others))
        shares.append(remaining)
    own_shares = iter(shares)
    return [
        next(own_shares)
        if process.devices
        else of_replica.get(-1 if process.feeds is None else process.feeds, ())
        for process in processes
    ]
