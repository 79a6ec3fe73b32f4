"""Define the processes of a JAX case: a trainer per device or per node, which find each other through variables."""

from typing import Dict, List

from dlperf_sdk.worker.processes import Cluster, Process, list_processes, one_per_device, one_per_node


def processes(cluster: Cluster) -> List[Process]:
    """Return the processes of a case, in the order of ranks: trainers only.

    There is one trainer per node with the strategy `all_reduce` and the option `one_process_per_node`, else one per
    device. With `all_reduce` and several trainers, each has the environment variables that `join_trainers` lists.
    `cluster` describes the case and its nodes.

    Raises:
        Unsupported: There are several devices, and the plugin does not have the case's strategy.
    """
    return list_processes(cluster, STRATEGIES)


def join_trainers(cluster: Cluster) -> List[Process]:
    """Describe the trainers of all nodes, in the order of ranks, with their environment variables.

    There is one trainer per device; with the option `one_process_per_node`, one per node. The variables are
    JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and JAX_PROCESS_ID, and on GPUs NCCL_SOCKET_IFNAME if the node's network
    interface is known. A single trainer has none of them. `cluster` describes the case and its nodes.
    """
    trainers = one_per_node(cluster) if cluster.options["one_process_per_node"] else one_per_device(cluster)
    if len(trainers) == 1:
        return trainers

    def variables(trainer: Process) -> Dict[str, str]:
        values = {
            "JAX_COORDINATOR_ADDRESS": "%s:%s" % (cluster.nodes[0].host, cluster.nodes[0].ports[0]),
            "JAX_NUM_PROCESSES": str(len(trainers)),
            "JAX_PROCESS_ID": str(trainer.rank),
        }
        interface = cluster.nodes[trainer.node].interface
        if interface and cluster.device == "cuda":
            values["NCCL_SOCKET_IFNAME"] = "=" + interface
        return values

    return [trainer._replace(variables=variables(trainer)) for trainer in trainers]


STRATEGIES = {"all_reduce": join_trainers, "independent": one_per_device}
"""Strategy → the function that lists the processes of several devices."""
