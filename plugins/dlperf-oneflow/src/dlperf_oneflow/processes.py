"""Define the processes of a OneFlow case: a trainer per device, which find each other through variables."""

from typing import Dict, List

from dlperf_sdk.worker.processes import Cluster, Process, list_processes, one_per_device


def processes(cluster: Cluster) -> List[Process]:
    """Return the processes of a case: a trainer per device.

    With the strategy `all_reduce` and several devices, each trainer has the variables that OneFlow reads when it is
    imported. LOCAL_RANK counts the ranks of a host, even if several nodes are on one host. On GPUs,
    CUDA_VISIBLE_DEVICES names all GPUs of the case on the host, since OneFlow takes the GPU with the index LOCAL_RANK.
    """
    return list_processes(cluster, STRATEGIES)


def join_trainers(cluster: Cluster) -> List[Process]:
    """Return a trainer per device, each with the variables by which it finds the others."""
    trainers = one_per_device(cluster)
    hosts = [cluster.nodes[trainer.node].host for trainer in trainers]

    def variables(rank: int) -> Dict[str, str]:
        values = {
            "MASTER_ADDR": cluster.nodes[0].host,
            "MASTER_PORT": cluster.nodes[0].ports[0],
            "RANK": str(rank),
            "WORLD_SIZE": str(len(trainers)),
            "LOCAL_RANK": str(hosts[:rank].count(hosts[rank])),
        }
        if cluster.device == "cuda":
            nodes = [node for node in cluster.nodes if node.host == hosts[rank]]
            values["CUDA_VISIBLE_DEVICES"] = ",".join(device for node in nodes for device in node.devices)
        return values

    return [trainer._replace(variables=variables(rank)) for rank, trainer in enumerate(trainers)]


STRATEGIES = {"all_reduce": join_trainers, "independent": one_per_device}
"""Strategy → the function that lists the processes of several devices."""
