"""Define the processes of a Paddle case: a trainer per device, which find each other through variables."""

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

    The variables are those that `paddle.distributed.init_parallel_env` reads: PADDLE_MASTER, PADDLE_TRAINER_ID,
    PADDLE_TRAINERS_NUM, PADDLE_TRAINER_ENDPOINTS, PADDLE_CURRENT_ENDPOINT and PADDLE_DISTRI_BACKEND (`gloo` on
    CPUs, which Paddle would not choose there, and `nccl` on GPUs); on GPUs also FLAGS_selected_gpus, and
    NCCL_SOCKET_IFNAME if the node's network interface is known. Each trainer has an endpoint, HOST:PORT; PADDLE_MASTER
    is a further endpoint. `cluster` describes the case and its nodes.
    """
    trainers = one_per_device(cluster)
    ports = cluster.nodes[0].ports
    endpoints = [
        "%s:%s" % (cluster.nodes[trainer.node].host, cluster.nodes[trainer.node].ports[trainer.devices[0]])
        for trainer in trainers
    ]
    all_endpoints = ",".join(endpoints)

    def variables(trainer: Process) -> Dict[str, str]:
        values = {
            "PADDLE_MASTER": "%s:%s" % (cluster.nodes[0].host, ports[-1]),
            "PADDLE_TRAINER_ID": str(trainer.rank),
            "PADDLE_TRAINERS_NUM": str(len(trainers)),
            "PADDLE_TRAINER_ENDPOINTS": all_endpoints,
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


STRATEGIES = {"all_reduce": join_trainers, "independent": one_per_device}
"""Strategy → the function that lists the processes of several devices."""
