"""Define the processes of an MXNet case: a trainer per node or per device, and the services of its strategy."""

from typing import Dict, List

from dlperf_sdk.worker.horovod import plan_with_horovod
from dlperf_sdk.worker.processes import (
    SERVICE,
    Cluster,
    Node,
    Process,
    list_processes,
    one_per_device,
    one_per_node,
)

SERVE = "dlperf_mxnet.worker.service:serve"
"""Function that the scheduler and the servers call; the variable `DMLC_ROLE` names the role of each."""

CPU_DEVICES = "DLPERF_MXNET_CPU_DEVICES"
"""Variable with the number of CPU devices that share the cores of a process; `dlperf_mxnet.worker` reads it."""


def processes(cluster: Cluster) -> List[Process]:
    """Return the processes of a case.

    There is a trainer per device with the strategies `independent` and `horovod`. With the others there is one per
    node, which owns all devices of the node, as MXNet's kvstore requires. Trainers are in the order of ranks. With
    `parameter_server` and several devices, the list begins with a scheduler on node 0 and a server on every node, which
    find the trainers through the environment variables of ps-lite (`DMLC_*`). With `horovod`, it begins with Horovod's
    rendezvous server. `cluster` describes the case and its nodes.

    Raises:
        Unsupported: There are several devices, and the plugin does not have the case's strategy.
    """
    return list_processes(cluster, STRATEGIES)


def whole_nodes(cluster: Cluster) -> List[Process]:
    """Return a trainer per node, which owns all devices of its node, in the order of the nodes.

    If a trainer owns several CPU devices, its environment variable DLPERF_MXNET_CPU_DEVICES has their number. `cluster`
    describes the case and its nodes.
    """
    trainers = one_per_node(cluster)
    if cluster.device != "cpu":
        return trainers
    return [
        trainer._replace(
            variables={CPU_DEVICES: str(len(trainer.devices))} if len(trainer.devices) > 1 else {}
        )
        for trainer in trainers
    ]


def plan_with_servers(cluster: Cluster) -> List[Process]:
    """Return a scheduler on node 0, a server on every node, and a trainer per node, in this order.

    Servers and trainers are in the order of the nodes. All have the environment variables of ps-lite (`DMLC_*`).
    `cluster` describes the case and its nodes.
    """
    trainers = whole_nodes(cluster)
    root = cluster.nodes[0]
    common = {
        "DMLC_PS_ROOT_URI": root.host,
        "DMLC_PS_ROOT_PORT": root.ports[0],
        "DMLC_NUM_WORKER": str(len(trainers)),
        "DMLC_NUM_SERVER": str(len(cluster.nodes)),
    }

    def variables(role: str, node: Node) -> Dict[str, str]:
        return dict(common, DMLC_ROLE=role, DMLC_NODE_HOST=node.host)

    def service(role: str, node: int) -> Process:
        # An idle server's threads must not spin on the cores of the trainers.
        values = dict(variables(role, cluster.nodes[node]), OMP_WAIT_POLICY="PASSIVE")
        return Process(SERVICE, node, values, target=SERVE)

    return [
        service("scheduler", 0),
        *(service("server", node) for node in range(len(cluster.nodes))),
        *(
            trainer._replace(
                variables=dict(trainer.variables, **variables("worker", cluster.nodes[trainer.node]))
            )
            for trainer in trainers
        ),
    ]


STRATEGIES = {
    "all_reduce": whole_nodes,
    "parameter_server": plan_with_servers,
    "horovod": plan_with_horovod,
    "independent": one_per_device,
}
"""Strategy → the function that lists the processes of several devices."""
