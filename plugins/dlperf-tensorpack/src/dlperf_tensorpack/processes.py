"""Define the processes of a tensorpack case: a trainer per node, whose graph has a tower for each device."""

from typing import List

from dlperf_sdk.worker.processes import Cluster, Process, list_processes, one_per_device, one_per_node


def processes(cluster: Cluster) -> List[Process]:
    """Return the processes of a case: a trainer per node, or per device with the strategy `independent`.

    They are in the order of ranks. They get no environment variables to find each other. `cluster` describes the case
    and its nodes.

    Raises:
        Unsupported: There are several devices, and the plugin does not have the case's strategy.
    """
    return list_processes(cluster, STRATEGIES)


STRATEGIES = {
    "all_reduce": one_per_node,
    "parameter_server": one_per_node,
    "independent": one_per_device,
}
"""Strategy → the function that lists the processes of several devices."""
