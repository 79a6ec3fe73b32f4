"""Define the processes of a MegEngine case: a trainer per device, which find each other through variables."""

from typing import Dict, List

from dlperf_sdk.worker.processes import Cluster, Process, list_processes, one_per_device


def processes(cluster: Cluster) -> List[Process]:
    """Return the processes of a case: a trainer per device, in the order of ranks.

    With the strategy `all_reduce` and several devices, each trainer has the environment variables that `join_trainers`
    lists. `cluster` describes the case and its nodes.

    Raises:
        Unsupported: There are several devices, and the plugin does not have the case's strategy.
    """
    return list_processes(cluster, STRATEGIES)


def join_trainers(cluster: Cluster) -> List[Process]:
    """Describe the trainers of all nodes, one per device in the order of ranks, with their environment variables.

    On CPUs the trainers are a ring: RING_ADDRESS is the address, HOST:PORT, at which a trainer listens, and RING_NEXT
    is the RING_ADDRESS of the next trainer. On GPUs, MASTER_ADDR and MASTER_PORT are the address of MegEngine's server,
    which runs in the process of rank 0, and NCCL_SOCKET_IFNAME is the node's network interface, if that is known.
    `cluster` describes the case and its nodes.
    """
    trainers = one_per_device(cluster)
    addresses = [
        "%s:%s" % (cluster.nodes[trainer.node].host, cluster.nodes[trainer.node].ports[trainer.devices[0]])
        for trainer in trainers
    ]

    def variables(rank: int) -> Dict[str, str]:
        if cluster.device == "cpu":
            return {"RING_ADDRESS": addresses[rank], "RING_NEXT": addresses[(rank + 1) % len(addresses)]}
        first = cluster.nodes[0]
        values = {"MASTER_ADDR": first.host, "MASTER_PORT": first.ports[0]}
        interface = cluster.nodes[trainers[rank].node].interface
        if interface:
            values["NCCL_SOCKET_IFNAME"] = "=" + interface
        return values

    return [trainer._replace(variables=variables(rank)) for rank, trainer in enumerate(trainers)]


STRATEGIES = {"all_reduce": join_trainers, "independent": one_per_device}
"""Strategy → the function that lists the processes of several devices."""
