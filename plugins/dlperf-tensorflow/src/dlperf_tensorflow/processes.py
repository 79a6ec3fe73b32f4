"""Which processes a TensorFlow case consists of: one per device or per node, told of each other in TF_CONFIG."""

import json
from typing import Dict, List

from dlperf_sdk.worker.processes import TRAINER, Cluster, Process, one_per_device


def one_per_node(cluster: Cluster) -> List[Process]:
    """A trainer per node, which owns all devices of its node."""
    found = []
    for node, facts in enumerate(cluster.nodes):
        devices = tuple(range(len(facts.devices)))
        first = cluster.first_replica(node)
        found.append(Process(TRAINER, node, {}, devices, tuple(first + device for device in devices), node))
    return found


def processes(cluster: Cluster) -> List[Process]:
    """Trainers; where several of them average gradients, with the variables that TensorFlow reads.

    TF_CONFIG names an address and a port for every worker. NCCL is told which interface reaches the others.
    """
    if cluster.strategy != "all_reduce":
        return one_per_device(cluster)
    whole_nodes = cluster.options["one_process_per_node"]
    trainers = one_per_node(cluster) if whole_nodes else one_per_device(cluster)
    if len(trainers) == 1:
        return trainers
    workers = [
        "%s:%s" % (cluster.nodes[trainer.node].host, cluster.nodes[trainer.node].ports[trainer.devices[0]])
        for trainer in trainers
    ]

    def variables(trainer: Process) -> Dict[str, str]:
        task = {"type": "worker", "index": trainer.rank}
        found = {"TF_CONFIG": json.dumps({"cluster": {"worker": workers}, "task": task})}
        interface = cluster.nodes[trainer.node].interface
        if interface and cluster.device == "cuda":
            found["NCCL_SOCKET_IFNAME"] = "=" + interface
        return found

    return [trainer._replace(variables=variables(trainer)) for trainer in trainers]
