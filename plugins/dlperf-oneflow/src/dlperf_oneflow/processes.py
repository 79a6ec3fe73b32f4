"""Define the processes of a OneFlow case: a trainer per device, which find each other through variables."""

from collections import defaultdict
from itertools import count
from typing import DefaultDict, Dict, Iterator, List

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

    OneFlow reads MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE and LOCAL_RANK when it is imported. LOCAL_RANK is the
    number of a trainer on its host, counted over all nodes that share the host. On GPUs, CUDA_VISIBLE_DEVICES names all
    GPUs of the case on the host, since OneFlow takes the GPU with the index LOCAL_RANK. `cluster` describes the case
    and its nodes.
    """
    trainers = one_per_device(cluster)
    counters: DefaultDict[str, Iterator[int]] = defaultdict(count)
    local_ranks = [next(counters[cluster.nodes[trainer.node].host]) for trainer in trainers]
    devices: DefaultDict[str, List[str]] = defaultdict(list)
    for node in cluster.nodes:
        devices[node.host] += node.devices

    def variables(rank: int) -> Dict[str, str]:
        values = {
            "MASTER_ADDR": cluster.nodes[0].host,
            "MASTER_PORT": cluster.nodes[0].ports[0],
            "RANK": str(rank),
            "WORLD_SIZE": str(len(trainers)),
            "LOCAL_RANK": str(local_ranks[rank]),
        }
        if cluster.device == "cuda":
            values["CUDA_VISIBLE_DEVICES"] = ",".join(devices[cluster.nodes[trainers[rank].node].host])
        return values

    return [trainer._replace(variables=variables(rank)) for rank, trainer in enumerate(trainers)]


STRATEGIES = {"all_reduce": join_trainers, "independent": one_per_device}
"""Strategy → the function that lists the processes of several devices."""
