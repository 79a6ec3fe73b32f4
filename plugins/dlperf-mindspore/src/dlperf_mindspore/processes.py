"""Define the processes of a MindSpore case: a trainer per device, and the scheduler through which they meet."""

from typing import List

from dlperf_sdk.worker.processes import SERVICE, Cluster, Process, list_processes, one_per_device

SCHEDULE = "dlperf_mindspore.worker.scheduler:schedule"
"""Function that the scheduler calls."""


def processes(cluster: Cluster) -> List[Process]:
    """Return the processes of a case: a trainer per device, in the order of ranks.

    With the strategy `all_reduce` and several devices, the list begins with a scheduler on node 0. The scheduler and
    the trainers find each other through MindSpore's environment variables (`MS_*`). `cluster` describes the case and
    its nodes.

    Raises:
        Unsupported: There are several devices, and the plugin does not have the case's strategy.
    """
    return list_processes(cluster, STRATEGIES)


def _plan_with_scheduler(cluster: Cluster) -> List[Process]:
    """Return a scheduler on node 0 and a trainer per device, with the variables of MindSpore's cluster."""
    trainers = one_per_device(cluster)
    root = cluster.nodes[0]
    common = {
        "MS_SCHED_HOST": root.host,
        "MS_SCHED_PORT": root.ports[0],
        "MS_WORKER_NUM": str(len(trainers)),
        # Seconds between attempts to reach the scheduler; by default 3 to 5.
        "MS_RETRY_INTERVAL_LOWER": "0.2",
        "MS_RETRY_INTERVAL_UPPER": "0.4",
    }
    scheduler = Process(SERVICE, 0, dict(common, MS_ROLE="MS_SCHED"), target=SCHEDULE)
    return [
        scheduler,
        *(
            trainer._replace(variables=dict(common, MS_ROLE="MS_WORKER", MS_NODE_ID=str(trainer.rank)))
            for trainer in trainers
        ),
    ]


STRATEGIES = {"all_reduce": _plan_with_scheduler, "independent": one_per_device}
"""Strategy → the function that lists the processes of several devices."""
