"""Check before anything is started that a node can run a case, and choose its resources for an attempt."""

import os
import time
from typing import Any, Dict, NamedTuple, Optional, Sequence
from zipfile import BadZipFile

from dlperf_sdk.worker import network
from dlperf_sdk.worker.agent import hardware, preflight
from dlperf_sdk.worker.agent.launch_commands import needs_other_nodes
from dlperf_sdk.worker.bundled import unpack
from dlperf_sdk.worker.exhaustion import describe_exhaustion
from dlperf_sdk.worker.gpu import devices
from dlperf_sdk.worker.processes import port_count
from dlperf_sdk.worker.request import Request
from dlperf_sdk.worker.variables import worker_environment


class Introduction(NamedTuple):
    """The agent's description of its node, and the resources that the check opened."""

    hello: Dict[str, Any]
    """The event `hello`, as `introduce` describes it."""
    bundle: str
    """The directory from which workers import; the bundle's own path if it could not be unpacked."""
    doorbell: Optional[preflight.Doorbell]
    """The listener for the connection test; None if all nodes are on this machine, or the node cannot run the case."""


def introduce(
    request: Request,
    bundle: str,
    scratch: str,
    address: str,
    interface: Optional[str] = None,
    ports: Sequence[int] = (),
) -> Introduction:
    """Check this node, unpack the bundle, and open the doorbell if other machines take part.

    The doorbell is a listening socket. The other nodes connect to it to check that they can reach this node.

    Args:
        request: The case.
        bundle: The bundle's file or directory.
        scratch: The directory for this node's temporary files, into which the bundle is unpacked.
        address: This node's address if no interface is named.
        interface: The network interface whose address this node takes; None if the user named none.
        ports: The ports that may be used; empty for any.

    Returns:
        The event `hello`, the path of the unpacked bundle, and the doorbell, which is None if the node cannot run the
        case or no other machine takes part. `hello` has `address`, this node's address; and `facts`, the result of
        `hardware.describe` with one more key, `network`, a dict of this node's `address` and `interface`. It also has:

        - if the node cannot run the case: `unfit`, the `kind` and `message` of the failure;
        - otherwise `time`, in seconds since the epoch; and if there is a doorbell, its port as `doorbell`, and
          `versions`, the result of `preflight.versions`.
    """
    hello: Dict[str, Any] = {"event": "hello", "facts": hardware.describe(), "address": address}
    doorbell = None
    variables = worker_environment(os.environ, request.variables, {})
    try:
        if interface:
            hello["address"] = address = _address_of(interface)
        bundle = unpack(bundle, scratch)
        unfit = preflight.check_node(
            request.command, scratch, request.required_programs, variables.get("PATH")
        )
        # On one machine nodes cannot differ, and no firewall is between them.
        if unfit is None and not address.startswith("127."):
            doorbell = preflight.Doorbell(address, ports)
    except (OSError, BadZipFile) as error:
        shortage = describe_exhaustion(error, "Its agent")
        reason = "lacks a resource. %s" % shortage[:-1] if shortage else "cannot be prepared: %s" % error
        unfit = {"kind": "unavailable", "message": reason}
    hello["facts"]["network"] = {"address": address, "interface": network.interface_of(address)}
    if unfit is not None:
        return Introduction(dict(hello, unfit=unfit), bundle, None)
    if doorbell is not None:
        hello["doorbell"] = doorbell.port
        hello["versions"] = preflight.versions(request.command, variables)
    return Introduction(dict(hello, time=time.time()), bundle, doorbell)


def _address_of(interface: str) -> str:
    try:
        return network.address_of(interface)
    except OSError as error:
        raise OSError("there is no interface %s with an IPv4 address here" % interface) from error


def choose_resources(
    request: Request, node: int, message: Dict[str, Any], ports: Sequence[int]
) -> Dict[str, Any]:
    """Choose devices and ports of this node for the next attempt; return the answer to the order `prepare`.

    Args:
        request: The case.
        node: The node's number.
        message: The order, with this node's `address`; `host_index`, its index among the nodes on the same machine,
            from 0; and `host_count`, their number.
        ports: The ports that may be used; empty for any.

    Returns:
        The event `prepared`. It has `devices`, a list of identifiers; `notes`, a list of sentences for the
        result; `ports`, a list of free ports, each as text in digits; `interface`, the name of the network interface
        with this node's address, empty if there is none; and `needs_table`, True if variables of the node's processes
        contain addresses of nodes other than this one and node 0. If there are too few devices or ports, or an
        exception is raised, the event is `unprepared`, with a `message` for the user.
    """
    try:
        return _chosen(request, node, message, ports)
    except Exception as error:
        reason = describe_exhaustion(error, "Its agent") or "%s: %s" % (type(error).__name__, error)
        return {
            "event": "unprepared",
            "message": "Node %d cannot choose its devices and ports: %s" % (node, reason),
        }


def _chosen(request: Request, node: int, message: Dict[str, Any], ports: Sequence[int]) -> Dict[str, Any]:
    count, index, host_count = request.devices_per_node, message["host_index"], message["host_count"]
    address, timeout = message["address"], request.deadlines["start"]
    chosen = devices.choose(request.device, count, index, host_count, request.on_busy, timeout)
    if isinstance(chosen, str):
        return {"event": "unprepared", "message": chosen}
    # Nodes of one machine choose at the same time, so each chooses among ports of its own.
    free = network.free_ports(address, port_count(count), (ports or network.USUAL)[index::host_count])
    interface = network.interface_of(address)
    resources = {"devices": list(chosen.devices), "ports": free, "interface": interface}
    needs_table = needs_other_nodes(request, node, dict(resources, host=address))
    return dict(resources, event="prepared", notes=list(chosen.notes), needs_table=needs_table)
