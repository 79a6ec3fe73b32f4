"""The processes of the strategy `horovod`, which any framework's plugin may offer, and their rendezvous.

Horovod's trainers exchange their addresses through its own HTTP server, a service process on node 0. Nothing here
imports Horovod before it is needed: only the environment of the strategy has it.
"""

import importlib
import os
import socket
import time
from typing import Any, Dict, List, Tuple

from dlperf_sdk.worker.processes import SERVICE, Cluster, Process, one_per_device

RENDEZVOUS = "dlperf_sdk.worker.horovod:serve_rendezvous"
"""Function that calls Horovod's rendezvous server; its address and port are in variables."""


def plan_with_horovod(cluster: Cluster) -> List[Process]:
    """Return a rendezvous server on node 0 and a trainer per device, as `horovodrun` would start them.

    The variables `HOROVOD_…` of each process give addresses, ranks and sizes. HOROVOD_HOSTNAME is only a name by which
    the trainers of a node find each other, so nodes may share a machine. The server listens on the port `ports[n]` of
    node 0, where n is the number of node 0's devices.

    Args:
        cluster: All nodes of the case. The trainers of a node use its network interface, `interface`. If that is empty,
            they use `lo`, which reaches no other machine.

    Returns:
        The server, then the trainers in the order of their ranks.
    """
    first, trainers = cluster.nodes[0], one_per_device(cluster)
    rendezvous = {
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": first.host,
        "HOROVOD_GLOO_RENDEZVOUS_PORT": first.ports[len(first.devices)],
    }
    processes = [Process(SERVICE, 0, rendezvous, target=RENDEZVOUS)]
    for rank, trainer in enumerate(trainers):
        # Without an interface there is one node only.
        interface = cluster.nodes[trainer.node].interface or "lo"
        variables = {
            "HOROVOD_CONTROLLER": "gloo",
            "HOROVOD_CPU_OPERATIONS": "gloo",
            "HOROVOD_GLOO_IFACE": interface,
            "HOROVOD_HOSTNAME": "node-%d" % trainer.node,
            "HOROVOD_RANK": str(rank),
            "HOROVOD_SIZE": str(len(trainers)),
            "HOROVOD_LOCAL_RANK": str(trainer.devices[0]),
            "HOROVOD_LOCAL_SIZE": str(len(cluster.nodes[trainer.node].devices)),
            "HOROVOD_CROSS_RANK": str(trainer.node),
            "HOROVOD_CROSS_SIZE": str(len(cluster.nodes)),
        }
        if cluster.device == "cuda":
            variables["NCCL_SOCKET_IFNAME"] = "=" + interface
        processes.append(trainer._replace(variables=dict(variables, **rendezvous)))
    return processes


def serve_rendezvous() -> None:
    """Run the HTTP server by which the trainers exchange their addresses, until the agent ends this process.

    The environment variables HOROVOD_GLOO_RENDEZVOUS_ADDR and HOROVOD_GLOO_RENDEZVOUS_PORT are the host and port on
    which it listens.

    Raises:
        ImportError: Horovod is not installed.
        KeyError: One of the variables is not set.
        OSError: The port is in use.
    """
    from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer

    RendezvousHTTPServer(_rendezvous_address(), RendezvousHandler, verbose=0).serve_forever()


def _rendezvous_address() -> Tuple[str, int]:
    """Return host and port of the rendezvous server."""
    return os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"], int(os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"])


def join(name: str, timeout: float) -> Any:
    """Wait for the rendezvous server and the other trainers, and return Horovod's initialized module.

    The environment variables HOROVOD_GLOO_RENDEZVOUS_ADDR and HOROVOD_GLOO_RENDEZVOUS_PORT give the server's address.
    The function sets HOROVOD_GLOO_TIMEOUT_SECONDS to `timeout`, which is also the timeout of gloo's collectives.

    Args:
        name: Name of Horovod's module for the framework, such as `horovod.torch`.
        timeout: Seconds to wait for the server, and then once more for the other trainers.

    Raises:
        OSError: The server did not accept a connection within `timeout` seconds.
        ImportError: Horovod is not installed, or was built without the framework.
        ValueError: Horovod's initialization failed, as when trainers are missing for `timeout` seconds. Horovod prints
            the reason to standard error.
        KeyError: A variable with the server's address is not set.
    """
    # Horovod itself tries three times within 1.5 s.
    deadline = time.monotonic() + timeout
    while True:
        try:
            socket.create_connection(_rendezvous_address(), 1.0).close()
            break
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
    os.environ["HOROVOD_GLOO_TIMEOUT_SECONDS"] = str(int(timeout))
    hvd = importlib.import_module(name)
    hvd.init()
    return hvd


def facts(hvd: Any, device: str) -> Dict[str, str]:
    """Return facts for the record: Horovod's version, and the library of its collectives.

    Args:
        hvd: The module that `join` returned.
        device: The kind of device, such as `cpu` or `cuda`.

    Returns:
        A dict: `horovod_version`; and `transport`, which is `nccl` for `cuda` if Horovod was built with NCCL, else
        `gloo`.
    """
    import horovod

    transport = "nccl" if device == "cuda" and hvd.nccl_built() else "gloo"
    return {"horovod_version": horovod.__version__, "transport": transport}
