"""Define the processes of a TensorFlow case, which TF_CONFIG lists: trainers, or one trainer and its servers."""

import json
from typing import Dict, List

from dlperf_sdk.worker.processes import (
    SERVICE,
    TRAINER,
    Cluster,
    Process,
    list_processes,
    one_per_device,
    one_per_node,
)

SERVE = "dlperf_tensorflow.worker.service:serve"
"""Function that TensorFlow's servers call; the variable TF_CONFIG holds the role of each."""


def processes(cluster: Cluster) -> List[Process]:
    """Return the processes of a case, in the order of ranks: a trainer per device, with two exceptions.

    With the strategy `all_reduce` and the option `one_process_per_node`, there is a trainer per node. With
    `parameter_server_async` and several devices, the processes are those of `plan_with_servers`.

    With `all_reduce` and several trainers, each has the environment variables that `join_trainers` lists. `cluster`
    describes the case and its nodes.

    Raises:
        Unsupported: There are several devices, and the plugin does not have the case's strategy.
    """
    return list_processes(cluster, STRATEGIES)


def join_trainers(cluster: Cluster) -> List[Process]:
    """Describe the trainers of all nodes, one per device in the order of ranks, with their environment variables.

    With the option `one_process_per_node`, there is a trainer per node. TF_CONFIG has the addresses of all trainers,
    and the trainer's index; on GPUs there is also NCCL_SOCKET_IFNAME if the node's network interface is known. A single
    trainer has neither. `cluster` describes the case and its nodes.
    """
    whole_nodes = cluster.options["one_process_per_node"]
    trainers = one_per_node(cluster) if whole_nodes else one_per_device(cluster)
    if len(trainers) == 1:
        return trainers
    workers = [_address(cluster, trainer.node, trainer.devices[0]) for trainer in trainers]

    def variables(trainer: Process) -> Dict[str, str]:
        values = _make_tf_config({"worker": workers}, "worker", trainer.rank or 0)
        interface = cluster.nodes[trainer.node].interface
        if interface and cluster.device == "cuda":
            values["NCCL_SOCKET_IFNAME"] = "=" + interface
        return values

    return [trainer._replace(variables=variables(trainer)) for trainer in trainers]


def plan_with_servers(cluster: Cluster) -> List[Process]:
    """Return the processes of a case with parameter servers: the services, then one trainer, all with a TF_CONFIG.

    The services are a parameter server per node, then a computing server per device. The trainer is on node 0 and has
    no device: it schedules functions on the computing servers, and writes the record of all replicas. A node's ports
    are used in this order: one for each computing server, one for the parameter server, one for the trainer. `cluster`
    describes the case and its nodes.
    """
    places = [(replica.node, replica.devices[0]) for replica in one_per_device(cluster)]
    counts = [len(facts.devices) for facts in cluster.nodes]
    jobs = {
        "chief": [_address(cluster, 0, counts[0] + 1)],
        "ps": [_address(cluster, node, count) for node, count in enumerate(counts)],
        "worker": [_address(cluster, node, device) for node, device in places],
    }
    return [
        *(
            Process(SERVICE, node, _make_tf_config(jobs, "ps", node), target=SERVE)
            for node in range(len(cluster.nodes))
        ),
        *(
            Process(SERVICE, node, _make_tf_config(jobs, "worker", index), (device,), target=SERVE)
            for index, (node, device) in enumerate(places)
        ),
        Process(TRAINER, 0, _make_tf_config(jobs, "chief", 0), (), tuple(range(cluster.world_size)), 0),
    ]


def _address(cluster: Cluster, node: int, port: int) -> str:
    """Return a node's address with one of its ports, by index."""
    return "%s:%s" % (cluster.nodes[node].host, cluster.nodes[node].ports[port])


def _make_tf_config(jobs: Dict[str, List[str]], kind: str, index: int) -> Dict[str, str]:
    """Return the variables of one process: all addresses, and its own role and index."""
    return {"TF_CONFIG": json.dumps({"cluster": jobs, "task": {"type": kind, "index": index}})}


STRATEGIES = {
    "all_reduce": join_trainers,
    "parameter_server_async": plan_with_servers,
    "independent": one_per_device,
}
"""Strategy → the function that lists the processes of several devices."""
