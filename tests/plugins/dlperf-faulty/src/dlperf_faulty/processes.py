"""Both halves: a trainer per device, and a service that never ends by itself, like a parameter server."""

from dlperf_sdk.worker.processes import SERVICE, Process, one_per_device


def processes(cluster):
    fault = cluster.options["fault"]
    place = {"FAULTY_SERVER": f"{cluster.nodes[0].host}:{cluster.nodes[0].ports[-1]}"}
    service = Process(SERVICE, 0, {"FAULTY_ROLE": fault, **place}, target="dlperf_faulty.worker:serve")
    trainers = [item._replace(variables={**item.variables, **place}) for item in one_per_device(cluster)]
    if fault == "node-of-services":
        # No fault, but no trainer either on the last node, which is there to serve.
        last = len(cluster.nodes) - 1
        return [service._replace(node=last), *(trainer for trainer in trainers if trainer.node < last)]
    return [service, *trainers]
