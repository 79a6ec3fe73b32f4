"""Both halves: a trainer per device, and a service that never ends by itself, like a parameter server."""

from dlperf_sdk.worker.processes import SERVICE, Process, one_per_device


def processes(cluster):
    fault = cluster.options["fault"]
    # No fault, but no trainer either on the last node, which is there to serve: the others need its address.
    node = len(cluster.nodes) - 1 if fault == "node-of-services" else 0
    place = {"FAULTY_SERVER": f"{cluster.nodes[node].host}:{cluster.nodes[node].ports[-1]}"}
    service = Process(SERVICE, node, {"FAULTY_ROLE": fault, **place}, target="dlperf_faulty.worker:serve")
    trainers = [item._replace(variables={**item.variables, **place}) for item in one_per_device(cluster)]
    return [service, *(trainer for trainer in trainers if trainer.node < node or not node)]
