"""Both halves: a trainer per device, and a service that never ends by itself, like a parameter server."""

from dlperf_sdk.worker.processes import SERVICE, Process, one_per_device


def processes(cluster):
    service = Process(SERVICE, 0, {"FAULTY_ROLE": "server"}, target="dlperf_faulty.worker:serve")
    return [service] + one_per_device(cluster)
