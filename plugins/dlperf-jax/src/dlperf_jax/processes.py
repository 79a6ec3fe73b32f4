"""Define the processes of a JAX case: one per device or per node, finding each other through a coordinator."""

from typing import Dict, List

from dlperf_sdk.worker.processes import Cluster, Process, one_per_device, one_per_node


def processes(cluster: Cluster) -> List[Process]:
    """Return the trainers of a case; where several average gradients, with the variables of `jax.distributed`.

    NCCL is told which interface reaches the others; gloo gets this node's address in the worker.
    """
    if cluster.strategy != "all_reduce":
        return one_per_device(cluster)
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
