"""An agent's start: determine its placement, connect to the coordinator or a relay, hold the tether.

On node 0 the coordinator runs in the agent's process, and the agent connects to it like other agents. If agents of
other nodes connect to this one, a relay runs in its process.
"""

import json
import os
import random
import sys
import threading
import traceback
from socket import gethostname
from typing import Any, Callable, Dict, Optional, Sequence, Union

from dlperf_sdk.worker import lifetime, network
from dlperf_sdk.worker.agent import rendezvous, tether
from dlperf_sdk.worker.agent.agent import Agent
from dlperf_sdk.worker.agent.coordinator import Coordinator
from dlperf_sdk.worker.agent.link import Link
from dlperf_sdk.worker.agent.placement import Placement, resolve_placement
from dlperf_sdk.worker.agent.relay import Relay
from dlperf_sdk.worker.agent.scratch import scratch as scratch_directory
from dlperf_sdk.worker.agent.tree import FAN_OUT, Tree
from dlperf_sdk.worker.bundled import DamagedBundle, contains, member, read_request
from dlperf_sdk.worker.exhaustion import describe_exhaustion
from dlperf_sdk.worker.failures import failure
from dlperf_sdk.worker.request import Request

_REPORT_MARGIN = 5.0
"""Seconds before the deadline `start` at which an agent reports that it cannot join; the coordinator only knows that it
is missing."""
_RELAY_CANDIDATES = 64
"""Ports that a relay tries to listen on."""


def main(
    node: str,
    hosts: str,
    interface: Optional[str],
    ports: str,
    python: Optional[str],
    scratch: Optional[str],
    stops_with_input: bool,
    fan_out: int = FAN_OUT,
) -> int:
    """Run the agent of a node until the run is over.

    Standard output becomes the stream of events; everything else that is printed goes to standard error. An agent
    that cannot join its run writes the event `ended` with the reason.

    Args:
        node: The node's number, or `$NAME` of the variable that holds it.
        hosts: The hosts of the nodes, from node 0 on, as a list that `expand_hosts` takes; or `$NAME` of the variable
            that holds it. Hosts of later nodes may be missing.
        interface: The workers' network interface; None for the interface through which the agent reaches the
            coordinator.
        ports: The allowed ports as `FIRST-LAST`; empty for any.
        python: The environment's interpreter; None for the interpreter in the request.
        scratch: An existing directory for temporary files; None for a new one. Either is removed at the end.
        stops_with_input: True to end this process if standard input ends or is silent for `tether.TIMEOUT` (25 s).
        fan_out: Maximum number of nodes whose agents connect to one other node; the same for all agents of a run.

    Returns:
        The exit code: 0 if the coordinator sent `quit`, even if the case has failed; else 1.

    Raises:
        SystemExit: A SIGTERM or SIGHUP arrived before the agent has joined.
        OSError: The directory for temporary files cannot be made or locked.
    """
    os.umask(0o077)
    lifetime.adopt_orphans()
    lifetime.exit_on_termination()  # until `serve` handles these signals: the directory must be removed
    with scratch_directory(scratch) as directory:
        emit = _open_stream()
        bundle = os.path.abspath(sys.argv[0])
        placement: Optional[Placement] = None
        coordinator: Optional[Coordinator] = None
        joined: Optional[Link] = None
        try:
            request = _read_request(bundle, "request.json", python)
            parity = _read_request(bundle, "parity.json", python) if contains(bundle, "parity.json") else None
            if not contains(bundle, "secret"):
                raise DamagedBundle("it has no secret")
            secret, tree = member(bundle, "secret"), Tree(request.nodes, fan_out)
            if stops_with_input:
                threading.Thread(target=tether.watch, daemon=True).start()
            placement = resolve_placement(node, hosts, request.nodes, os.environ)
            allowed_ports = network.port_range(ports)
            host, candidates = placement.hosts[0], rendezvous.candidate_ports(secret, allowed_ports)
            if placement.node == 0:
                host = _address_of_coordinator(placement)
                listener = rendezvous.listen(host, candidates)
                coordinator = Coordinator(request, listener, secret, emit, parity, fan_out)
                coordinator.start()
                emit({"event": "heartbeat"})
                candidates = [coordinator.port]
            start = request.deadlines["start"]
            timeout = start - min(_REPORT_MARGIN, start / 4)
            joined = rendezvous.join(host, candidates, secret, timeout, tree, placement.node)
            connection = serve_below(tree, placement.node, joined, secret, allowed_ports)
        except Exception as error:  # short of memory, Python raises nearly anything
            if not isinstance(error, (OSError, ValueError)):
                traceback.print_exc()
            ended = _join_failure(placement, error)
            emit(ended)
            if joined is not None and placement is not None:
                joined.send({"event": "exhausted", "node": placement.node, "failure": ended["failure"]})
            return 1
        agent = Agent(
            request, placement.node, connection, bundle, directory, interface, parity, allowed_ports
        )
        code = agent.serve()
        if coordinator is not None and code == 0:
            coordinator.join()  # it has sent `quit`, and only writes its last event
        connection.close()
        return code


def _address_of_coordinator(placement: Placement) -> str:
    """Return the address on which the coordinator listens, where the other nodes reach node 0."""
    return network.address_towards(placement.hosts[1] if len(placement.hosts) > 1 else "127.0.0.1")


def serve_below(
    tree: Tree, node: int, joined: Link, secret: str, allowed_ports: Sequence[int]
) -> Union[Link, Relay]:
    """Start the relay of a node if other nodes' agents connect to the node; return the link for the node's own agent.

    Args:
        tree: The tree of the case's nodes.
        node: Number of the node.
        joined: The link to the node's parent in the tree.
        secret: The bundle's secret.
        allowed_ports: The ports that the relay may use; empty for `network.USUAL` (20000 to 31999).

    Returns:
        The started relay, which has the methods of a link; `joined` if the node needs no relay.

    Raises:
        OSError: None of the ports that were tried is free.
    """
    if not tree.has_relay(node):
        return joined
    ports = allowed_ports or network.USUAL
    candidates = random.SystemRandom().sample(ports, min(len(ports), _RELAY_CANDIDATES))
    relay = Relay(tree, node, joined, rendezvous.listen(joined.address, candidates), secret)
    relay.start()
    return relay


def _join_failure(placement: Optional[Placement], error: Exception) -> Dict[str, Any]:
    """Return the stream's last event, of an agent that has not reached its coordinator."""
    node = None if placement is None else placement.node
    label = "The agent" if node is None else "Node %d" % node
    name = "%s (%s)" % (label, gethostname())
    expected = isinstance(error, (OSError, ValueError))
    reason = str(error) if expected else "%s: %s" % (type(error).__name__, error)
    message = describe_exhaustion(error, name) or "%s cannot join its run: %s." % (name, reason)
    join_failure = failure("unavailable", message, "start", node)
    return {"event": "ended", "status": "unavailable", "failure": join_failure}


def _open_stream() -> Callable[[Dict[str, Any]], None]:
    """Reserve standard output for agent 0's stream; everything else that is printed goes to standard error."""
    stream = os.dup(1)
    os.dup2(2, 1)

    def emit(message: Dict[str, Any]) -> None:
        data = json.dumps(message, allow_nan=False).encode() + b"\n"
        try:
            while data:
                data = data[os.write(stream, data) :]
        except OSError:
            pass  # the controller is gone; the tether ends this process

    return emit


def _read_request(bundle: str, file: str, python: Optional[str]) -> Request:
    """Read a request of the bundle, for the interpreter `python` if one is named."""
    request = read_request(bundle, file)
    return request if python is None else request._replace(command=[python])
