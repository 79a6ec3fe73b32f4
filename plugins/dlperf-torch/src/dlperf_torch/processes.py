"""Define the processes of a torch case: one per device, finding each other through variables."""

from typing import Dict, List

from dlperf_sdk.worker.processes import Cluster, Process, one_per_device


def processes(cluster: Cluster) -> List[Process]:
    """Return a trainer per device; if gradients are synchronized, with the variables of `torch.distributed` ("env://").

    NCCL and gloo are told which interface reaches the others. Left alone both guess, gloo from what the
    host's name resolves to, which in a container is often nothing.
    """
    trainers = one_per_device(cluster)
    if cluster.strategy != "all_reduce" or len(trainers) == 1:
        return trainers

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
