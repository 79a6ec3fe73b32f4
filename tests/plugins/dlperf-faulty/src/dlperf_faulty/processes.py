"""Both halves: a trainer per device, and a service that never ends by itself, like a parameter server."""

from dlperf_sdk.worker.processes import SERVICE, Process, one_per_device


def processes(cluster):
    place = {"FAULTY_SERVER": f"{cluster.nodes[0].host}:{cluster.nodes[0].ports[-1]}"}
    service = Process(SERVICE, 0, {"FAULTY_ROLE": "server", **place}, target="dlperf_faulty.worker:serve")
    trainers = [each._replace(variables={**each.variables, **place}) for each in one_per_device(cluster)]
    return [service, *trainers]
