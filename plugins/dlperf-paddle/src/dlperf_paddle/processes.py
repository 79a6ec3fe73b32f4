"""Define the processes of a Paddle case: one per device, finding each other through variables."""

from typing import Dict, List

from dlperf_sdk.worker.processes import Cluster, Process, one_per_device


def processes(cluster: Cluster) -> List[Process]:
    """Return a trainer per device; if gradients are synchronized, with the variables of `init_parallel_env`.

    Each trainer has an endpoint of its own, and they meet at one that is none of these. On a CPU the backend
    has to be named: left alone, Paddle would not choose gloo.
    """
    trainers = one_per_device(cluster)
    if cluster.strategy != "all_reduce" or len(trainers) == 1:
        return trainers
    ports = cluster.nodes[0].ports
    endpoints = [
        "%s:%s" % (cluster.nodes[trainer.node].host, cluster.nodes[trainer.node].ports[trainer.devices[0]])
        for trainer in trainers
    ]

    def variables(trainer: Process) -> Dict[str, str]:
        values = {
            "PADDLE_MASTER": "%s:%s" % (cluster.nodes[0].host, ports[-1]),
            "PADDLE_TRAINER_ID": str(trainer.rank),
            "PADDLE_TRAINERS_NUM": str(len(trainers)),
            "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints),
            "PADDLE_CURRENT_ENDPOINT": endpoints[trainer.rank or 0],
            "PADDLE_DISTRI_BACKEND": "nccl" if cluster.device == "cuda" else "gloo",
        }
        interface = cluster.nodes[trainer.node].interface
        if cluster.device == "cuda":
            values["FLAGS_selected_gpus"] = "0"  # the only one that it is let see
            if interface:
                values["NCCL_SOCKET_IFNAME"] = "=" + interface
        return values

    return [trainer._replace(variables=variables(trainer)) for trainer in trainers]
