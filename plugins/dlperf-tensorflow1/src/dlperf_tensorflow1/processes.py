"""Define the processes of a TensorFlow 1 case: a trainer per device, and the servers of its strategy."""

import json
from typing import Dict, List

from dlperf_sdk.worker.horovod import plan_with_horovod
from dlperf_sdk.worker.processes import SERVICE, Cluster, Process, list_processes, one_per_device

SERVE = "dlperf_tensorflow1.worker.service:serve"
"""Function that parameter servers call; the variable TF_CONFIG holds the index of each."""


def processes(cluster: Cluster) -> List[Process]:
    """Return the processes of a case: the services of its strategy, then a trainer per device, in the order of ranks.

    With the parameter-server strategies, the processes are those of `plan_with_servers`. With `horovod`, node 0 has a
    rendezvous server, and all processes have Horovod's environment variables. With `all_reduce`, the processes are
    those of `join_trainers`. With `independent` or one device, there are only trainers, without variables to find
    others. `cluster` describes the case and its nodes.

    Raises:
        Unsupported: There are several devices, and the plugin does not have the case's strategy.
    """
    return list_processes(cluster, STRATEGIES)


def join_trainers(cluster: Cluster) -> List[Process]:
    """Describe the trainers of all nodes, one per device in the order of ranks, each with a variable TF_CONFIG.

    TF_CONFIG has the addresses, HOST:PORT, of all trainers, and the trainer's index. `cluster` describes the case and
    its nodes.
    """
    trainers = one_per_device(cluster)
    jobs = {"worker": _addresses_of(cluster, trainers)}
    return [
        trainer._replace(variables=_make_tf_config(jobs, "worker", rank))
        for rank, trainer in enumerate(trainers)
    ]


def plan_with_servers(cluster: Cluster) -> List[Process]:
    """Return a parameter server per node, then a trainer per device, each with an environment variable TF_CONFIG.

    TF_CONFIG has the addresses, HOST:PORT, of all processes, and the process's own job and index. A node's ports are
    used in this order: one for each trainer, one for the server. `cluster` describes the case and its nodes.
    """
    trainers = one_per_device(cluster)
    jobs = {
        "ps": ["%s:%s" % (node.host, node.ports[len(node.devices)]) for node in cluster.nodes],
        "worker": _addresses_of(cluster, trainers),
    }
    return [
        *(
            Process(SERVICE, node, _make_tf_config(jobs, "ps", node), target=SERVE)
            for node in range(len(cluster.nodes))
        ),
        *(
            trainer._replace(variables=_make_tf_config(jobs, "worker", rank))
            for rank, trainer in enumerate(trainers)
        ),
    ]


def _addresses_of(cluster: Cluster, trainers: List[Process]) -> List[str]:
    """Return the address of each trainer: its node's, with the port of its device."""
    nodes = cluster.nodes
    return [
        "%s:%s" % (nodes[trainer.node].host, nodes[trainer.node].ports[trainer.devices[0]])
        for trainer in trainers
    ]


def _make_tf_config(jobs: Dict[str, List[str]], job: str, index: int) -> Dict[str, str]:
    """Return the variables of one process: all addresses, its own job and its index."""
    return {"TF_CONFIG": json.dumps({"cluster": jobs, "task": {"type": job, "index": index}})}


STRATEGIES = {
    "all_reduce": join_trainers,
    "parameter_server": plan_with_servers,
    "distributed_replicated": plan_with_servers,
    "horovod": plan_with_horovod,
    "independent": one_per_device,
}
"""Strategy → the function that lists the processes of several devices."""
