"""Define the processes of a torch case: a trainer per device, which find each other through variables."""

from typing import Dict, List

from dlperf_sdk.worker.horovod import plan_with_horovod
from dlperf_sdk.worker.processes import Cluster, Process, list_processes, one_per_device


def processes(cluster: Cluster) -> List[Process]:
    """Return the processes of a case: a trainer per device, in the order of ranks.

    With the strategy `horovod` and several devices, Horovod's rendezvous server comes first in the list. With
    `all_reduce` and several devices, each trainer has the environment variables that `join_trainers` lists. `cluster`
    describes the case and its nodes.

    Raises:
        Unsupported: There are several devices, and the plugin does not have the case's strategy.
    """
    return list_processes(cluster, STRATEGIES)


def join_trainers(cluster: Cluster) -> List[Process]:
    """Describe the trainers of all nodes, one per device in the order of ranks, with their environment variables.

    The variables are those that `torch.distributed` reads with `env://`: MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE and
    LOCAL_RANK. If the node's network interface is known, they are also GLOO_SOCKET_IFNAME, and on GPUs
    NCCL_SOCKET_IFNAME. If it is unknown, gloo takes the address to which the host's name resolves, which in a container
    is often unreachable from other nodes. `cluster` describes the case and its nodes.
    """
    trainers = one_per_device(cluster)

    def variables(trainer: Process) -> Dict[str, str]:
        values = {
            "MASTER_ADDR": cluster.nodes[0].host,
            "MASTER_PORT": cluster.nodes[0].ports[0],
            "RANK": str(trainer.rank),
            "WORLD_SIZE": str(len(trainers)),
            "LOCAL_RANK": str(trainer.devices[0]),
        }
        interface = cluster.nodes[trainer.node].interface
        if interface:
            values["GLOO_SOCKET_IFNAME"] = interface
            if cluster.device == "cuda":
                values["NCCL_SOCKET_IFNAME"] = "=" + interface
        return values

    return [trainer._replace(variables=variables(trainer)) for trainer in trainers]


STRATEGIES = {"all_reduce": join_trainers, "horovod": plan_with_horovod, "independent": one_per_device}
"""Strategy → the function that lists the processes of several devices."""
