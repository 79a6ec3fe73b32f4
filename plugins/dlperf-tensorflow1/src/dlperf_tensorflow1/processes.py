"""Define the processes of a TensorFlow 1 case: a trainer per device; TF_CONFIG lists them."""

import json
from typing import Dict, List

from dlperf_sdk.worker.processes import Cluster, Process, list_processes, one_per_device


def processes(cluster: Cluster) -> List[Process]:
    """Return the processes of a case: a trainer per device.

    If gradients are synchronized, each has a TF_CONFIG with the addresses of all and its index.
    """
    return list_processes(cluster, STRATEGIES)


def join_trainers(cluster: Cluster) -> List[Process]:
    """Return a trainer per device, each with the addresses of all."""
    trainers = one_per_device(cluster)
    addresses = _addresses_of(cluster, trainers)
    return [
        trainer._replace(variables=_make_tf_config(addresses, rank)) for rank, trainer in enumerate(trainers)
    ]


def _addresses_of(cluster: Cluster, trainers: List[Process]) -> List[str]:
    """Return the address of each trainer: its node's, with the port of its device."""
    nodes = cluster.nodes
    return [
        "%s:%s" % (nodes[trainer.node].host, nodes[trainer.node].ports[trainer.devices[0]])
        for trainer in trainers
    ]


def _make_tf_config(addresses: List[str], index: int) -> Dict[str, str]:
    """Return the variables of one trainer: all addresses, and its index."""
    task = {"type": "worker", "index": index}
    return {"TF_CONFIG": json.dumps({"cluster": {"worker": addresses}, "task": task})}


STRATEGIES = {
    "all_reduce": join_trainers,
    "independent": one_per_device,
}
"""Strategy → the function that lists the processes of several devices."""
