"""The connection to the cluster, and the nodes that a case gets."""

import os
import socket
import sys
import threading
import time

PLACE = 0.8
"""Share of the deadline `start` until which the nodes must be free."""
CONNECT = 30.0
"""Maximum seconds to connect to the cluster."""
POLL = 0.5
"""Seconds between two looks at what else has happened, while Ray is waited for."""


def connect(settings, output):
    """Connect to the Ray cluster, and return the module `ray`.

    If the cluster does not answer within 30 s (`CONNECT`) or 0.8 × `timeout`, whichever is less, a failure is written,
    and this process ends with exit code 1.

    Args:
        settings: Dict of the launcher's settings; `address` and `timeout`, in seconds, are read.
        output: The `Output` to which a failure is written.

    Returns:
        The module `ray`, connected; None if Ray cannot be imported or refuses the connection, and a failure was
        written.
    """
    address = settings["address"]
    try:
        import ray
    except ImportError as error:
        output.fail(
            "unavailable",
            f"{sys.executable} has no Ray ({error}). Install the cluster's version there, or name a Python that has "
            "it: --set ray_python=PATH.",
        )
        return None
    advice = "Check the address (--set address=HOST:PORT), and that `ray status` works on this machine."

    def give_up():
        output.fail(
            "unavailable", f"The Ray cluster {address} has not answered within {limit:.0f} s. {advice}"
        )
        os._exit(1)

    limit = min(CONNECT, PLACE * settings["timeout"])
    timer = threading.Timer(limit, give_up)
    timer.daemon = True
    timer.start()
    try:
        host, _, port = address.rpartition(":")
        if host and port.isdigit() and "://" not in host:
            socket.create_connection((host.strip("[]"), int(port)), limit).close()
        ray.init(address, log_to_driver=False, logging_level="ERROR", namespace="dlperf")
    except Exception as error:  # Ray raises a dozen types
        reason = " ".join(str(error).split())
        if "ersion mismatch" in reason:
            advice = "Install the cluster's versions, or name a Python that has them: --set ray_python=PATH."
        output.fail("unavailable", f"The Ray cluster {address} cannot be used: {reason} {advice}")
        return None
    finally:
        timer.cancel()
    return ray


def shortage(ray, settings):
    """Return a text with the resources that the case needs and those that are free on each node, for a message.

    Args:
        ray: The module `ray`, connected.
        settings: Dict of the launcher's settings; `nodes` and `bundle` (resource → amount per node) are read.
    """
    from ray._private.state import available_resources_per_node

    free = available_resources_per_node()
    needed = ", ".join(f"{amount:g} {name}" for name, amount in settings["bundle"].items() if amount)
    nodes = []
    for node in ray.nodes():
        if node["Alive"]:
            amounts, total = free.get(node["NodeID"], {}), node["Resources"]
            listed = ", ".join(
                f"{amounts.get(name, 0):g} of {total.get(name, 0):g} {name}" for name in settings["bundle"]
            )
            nodes.append(f"{node['NodeManagerAddress']}: {listed}")
    return (
        f"The case needs {settings['nodes']} nodes with {needed or 'no resources'} free on each; the cluster has "
        f"{len(nodes)} nodes ({'; '.join(nodes[:16])})."
    )


def place(ray, settings, deadline, source, output):
    """Wait until the cluster has reserved the nodes of the case, and return the placement group.

    Meanwhile, events `waiting` are written. If the result is None, nothing stays reserved.

    Args:
        ray: The module `ray`, connected.
        settings: Dict of the launcher's settings; `id`, `nodes`, `bundle` and `timeout` are read.
        deadline: Time of `time.monotonic()` at which waiting ends with a failure.
        source: The `Input` of the driver; waiting ends when it is closed.
        output: The `Output` to which events and a failure are written.

    Returns:
        The placement group; None if a failure was written or the input is closed.
    """
    bundle = {name: amount for name, amount in settings["bundle"].items() if amount} or {"CPU": 0.001}
    group = ray.util.placement_group(
        [bundle] * settings["nodes"], strategy="STRICT_SPREAD", name=f"dlperf-{settings['id']}"
    )
    while not source.is_closed.is_set():
        remaining = deadline - time.monotonic()
        if group.wait(max(0.1, min(POLL, remaining))):
            return group
        text = shortage(ray, settings)
        if remaining <= 0:
            output.fail(
                "unavailable",
                f"{text} They have not become free within {PLACE * settings['timeout']:.0f} s. Ask for less (--set "
                "cpus=, gpus=, or a smaller topology), or add nodes to the cluster.",
            )
            break
        output.event(event="waiting", text=text)
    ray.util.remove_placement_group(group)
    return None
