"""Define the processes of a case: plain values, and the pure function that most frameworks need.

A framework plugin names a function `processes(cluster) -> list of Process`. The planner calls it with placeholders
for addresses to show the plan, the agents with the real ones: so launch variables are written in one place. An agent
learns only the addresses that the variables of its own processes contain.
"""

import re
from itertools import accumulate
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Set, Tuple

from dlperf_sdk.worker.unsupported import look_up

TRAINER = "trainer"
SERVICE = "service"


_PLACEHOLDER = re.compile("<(?:host|interface|port [0-9]+|device [0-9]+) of node ([0-9]+)>")


class Node(NamedTuple):
    """One node. Texts that are unknown are placeholders, such as `<host of node 3>`: see `Cluster.nodes`."""

    host: str
    """An address at which the other nodes reach it."""
    ports: Tuple[str, ...]
    """Free ports on it, in digits: two per device and four more. Processes themselves see one more per device, for the
    senders of a data source."""
    devices: Tuple[str, ...]
    """The identifiers of its devices: `cpu:0`, or a GPU's UUID."""
    interface: str = ""
    """The network interface that reaches the other nodes; empty if there are none."""


class Cluster(NamedTuple):
    """All nodes of a case."""

    nodes: Tuple[Node, ...]
    """The nodes. A plan knows no node, and node 0 knows all. Any other node knows itself, node 0, and the nodes on the
    same machine; and if the variables of its processes contain the placeholder of another node, then the addresses,
    ports and interfaces of all nodes, but not their devices."""
    device: str
    """The kind of device: `cpu`, `cuda`, …"""
    strategy: str
    """Name of the strategy by which gradients are synchronized."""
    options: Mapping[str, Any] = {}
    """The options of the framework's plugin, such as how many devices a process owns."""

    @property
    def world_size(self) -> int:
        """Number of replicas on all nodes: one per device."""
        return sum(len(node.devices) for node in self.nodes)

    def device_of(self, replica: int) -> str:
        """Return the identifier of a replica's device, such as `cpu:0` or a GPU's UUID.

        If the device is unknown, the result is a placeholder such as `<device 0 of node 3>`.

        Args:
            replica: The replica's global index.

        Raises:
            IndexError: The case has fewer replicas.
        """
        return [device for node in self.nodes for device in node.devices][replica]


class Process(NamedTuple):
    """One worker process."""

    role: str
    """`trainer` steps and writes a record. `service` (a scheduler, a parameter server) is started, watched and
    ended. A service may exit with code 0 at any time; if one fails while trainers need it, the case fails."""
    node: int
    """Number of the node on which it runs."""
    variables: Dict[str, str]
    """Environment variables for its launch, which take precedence over all others."""
    devices: Tuple[int, ...] = ()
    """Devices of its node that it owns, by index. A service may own some, where it computes."""
    replicas: Tuple[int, ...] = ()
    """Trainers only: global indexes of the replicas that it records. Each replica has one device, of this process
    or of a service."""
    rank: Optional[int] = None
    """Number of the trainer, counted from 0 over all nodes; None for services."""
    target: Optional[str] = None
    """Services only: `module:function` to call, without arguments unless `feeds` is set."""
    feeds: Optional[int] = None
    """Senders of a data source only: global index of the replica whose batches the service sends. `target` gets the
    request, the cluster and this process. The service has its own core, from the share of the replica's
    trainer."""


def one_per_device(cluster: Cluster) -> List[Process]:
    """Return the trainers of all nodes, one per device, whose `variables` are empty.

    This suits replicas that do not synchronize, or that need no variables to do so.

    Args:
        cluster: All nodes of the case.

    Returns:
        The trainers by rank: node by node, each node's devices in their order. A trainer's rank is its replica's index.
    """
    places = [
        (node, device) for node, facts in enumerate(cluster.nodes) for device in range(len(facts.devices))
    ]
    return [
        Process(TRAINER, node, {}, (device,), (replica,), replica)
        for replica, (node, device) in enumerate(places)
    ]


def one_per_node(cluster: Cluster) -> List[Process]:
    """Return a trainer per node, with empty `variables`. Each trainer owns all devices of its node.

    Args:
        cluster: All nodes of the case.

    Returns:
        The trainers by rank, which is the node's number.
    """
    counts = [len(node.devices) for node in cluster.nodes]
    return [
        Process(TRAINER, node, {}, tuple(range(count)), tuple(range(end - count, end)), node)
        for node, (count, end) in enumerate(zip(counts, accumulate(counts)))
    ]


ProcessFunction = Callable[[Cluster], List[Process]]
"""Function that lists the processes of a case."""


def list_processes(cluster: Cluster, strategies: Mapping[str, ProcessFunction]) -> List[Process]:
    """Return the processes of a case: those of its strategy, or one trainer if the case has only one device.

    Args:
        cluster: All nodes of the case.
        strategies: The plugin's strategies by name, each with the function that lists the processes for several
            devices.

    Returns:
        The processes in the order of the strategy's function.

    Raises:
        Unsupported: There are several devices, and the plugin does not have the strategy.
    """
    if cluster.world_size == 1:
        return one_per_device(cluster)
    return look_up("strategy", cluster.strategy, strategies)(cluster)


def names_of(processes: List[Process]) -> List[str]:
    """Return a name for each process of a case, for logs and messages, in the order of `processes`.

    Args:
        processes: All processes of the case.

    Returns:
        A list with `rank-R` for the trainer of rank R, and `service-N` for the service with the number N. Services are
        numbered from 0 in their order, over all nodes.
    """
    names: List[str] = []
    services = 0
    for process in processes:
        if process.role == SERVICE:
            names.append("service-%d" % services)
            services += 1
        else:
            names.append("rank-%s" % process.rank)
    return names


def port_count(devices: int) -> int:
    """Return how many free ports a node with `devices` devices gets: three per device and four more.

    The last `devices` of them are for the senders of a data source. A plugin's function that lists the processes gets
    only the others.
    """
    return 3 * devices + 4


def nodes_from(count: int, devices: int, known: Mapping[str, Mapping[str, Any]]) -> Tuple[Node, ...]:
    """Return the nodes of a case, with placeholders for everything that is not known.

    Args:
        count: Number of nodes.
        devices: Number of devices of each node.
        known: Number of a node as text, such as `"0"` → its fields that are known, by name (`host`, `ports`,
            `devices`, `interface`), with lists in place of tuples. Nodes and fields may be missing.

    Returns:
        The nodes by number, from 0. A field that is not known has placeholders such as `<host of node 3>`. Entries of
        `known` for other numbers are ignored.

    Raises:
        ValueError: `known` has a field that `Node` lacks.
    """
    return tuple(_node_from(number, devices, known.get(str(number), {})) for number in range(count))


def _node_from(number: int, devices: int, known: Mapping[str, Any]) -> Node:
    placeholders = Node(
        "<host of node %d>" % number,
        tuple("<port %d of node %d>" % (port, number) for port in range(port_count(devices))),
        tuple("<device %d of node %d>" % (device, number) for device in range(devices)),
        "<interface of node %d>" % number,
    )
    fields: Dict[str, Any] = {
        name: value if isinstance(value, str) else tuple(value) for name, value in known.items()
    }
    return placeholders._replace(**fields)


def unknown_nodes(processes: Iterable[Process]) -> Set[int]:
    """Return the numbers of the nodes whose placeholders are in the variables of `processes`; empty if there are none.

    A placeholder, such as `<host of node 3>`, stands for an unknown host, interface, port or device of a node.
    """
    return {
        int(number)
        for process in processes
        for value in process.variables.values()
        for number in _PLACEHOLDER.findall(value)
    }


def process_from(plain: Mapping[str, Any]) -> Process:
    """Return the process that a JSON object describes.

    Args:
        plain: The fields of `Process` by name, with lists in place of tuples. `rank`, `target` and `feeds` may be
            missing; they are then None.

    Raises:
        KeyError: `devices` or `replicas` is missing.
        TypeError: `role`, `node` or `variables` is missing, or a field is unknown.
    """
    return Process(**dict(plain, devices=tuple(plain["devices"]), replicas=tuple(plain["replicas"])))
