"""How an agent comes to its run: what it is told of its place, how it meets the coordinator, and what ends it.

On node 0 the coordinator runs beside the agent, and is spoken to over loopback like from anywhere else.
"""

import json
import os
import select
import signal
import sys
import threading
from socket import gethostname
from typing import Any, Callable, Dict, Optional, Sequence, Tuple

from dlperf_sdk.worker import lifetime, network
from dlperf_sdk.worker.agent import rendezvous
from dlperf_sdk.worker.agent.agent import Agent
from dlperf_sdk.worker.agent.coordinator import Coordinator
from dlperf_sdk.worker.agent.placement import Placement, placed
from dlperf_sdk.worker.agent.scratch import scratch as scratch_directory
from dlperf_sdk.worker.bundled import has, member
from dlperf_sdk.worker.failures import failure
from dlperf_sdk.worker.request import Request

TETHER = 25.0
"""Seconds without anything on the tether after which the controller counts as lost; it writes every few seconds."""


def main(
    node: str,
    hosts: str,
    interface: Optional[str],
    ports: str,
    python: Optional[str],
    scratch: Optional[str],
    tether: bool,
) -> int:
    """Be the agent of a node; see the bundle's `agent --help`. Returns the exit code."""
    os.umask(0o077)
    lifetime.adopt_orphans()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # until it serves: leave no directory behind
    if tether:
        threading.Thread(target=_hold_tether, daemon=True).start()
    with scratch_directory(scratch) as directory:
        emit = _stream()
        bundle = os.path.abspath(sys.argv[0])
        request = _asked(bundle, "request.json", python)
        parity = _asked(bundle, "parity.json", python) if has(bundle, "parity.json") else None
        secret = member(bundle, "secret")
        place, leader = None, None
        try:
            place = placed(node, hosts, os.environ)
            among = network.port_range(ports)
            here, candidates = place.hosts[0], rendezvous.ports(secret, among)
            if place.node == 0:
                here, leader = _leading(place, request, secret, candidates, emit, parity)
                candidates = [leader.port]
            connection = rendezvous.meet(here, candidates, secret, request.deadlines["start"])
        except (OSError, ValueError) as error:
            emit(_unable(place, error))
            return 1
        code = Agent(request, place.node, connection, bundle, directory, interface, parity, among).serve()
        if leader is not None and code == 0:
            leader.join()  # it has said quit, and has only its last words to write
        connection.close()
        return code


def _leading(
    place: Placement,
    request: Request,
    secret: str,
    candidates: Sequence[int],
    emit: Callable[[Dict[str, Any]], None],
    parity: Optional[Request],
) -> Tuple[str, Coordinator]:
    """Node 0: the address that the others reach, and the coordinator, which listens there."""
    here = network.address_towards(place.hosts[1] if len(place.hosts) > 1 else "127.0.0.1")
    leader = Coordinator(request, rendezvous.listen(here, candidates), secret, emit, parity)
    leader.start()
    emit({"event": "heartbeat"})
    return here, leader


def _unable(place: Optional[Placement], error: Exception) -> Dict[str, Any]:
    """The stream's last event, from an agent that has not met its coordinator."""
    node = None if place is None else place.node
    called = "The agent" if node is None else "Node %d" % node
    said = "%s (%s) cannot join its run: %s." % (called, gethostname(), error)
    failed = failure("unavailable", said, "start", node)
    return {"event": "ended", "status": "unavailable", "failure": failed}


def _hold_tether() -> None:
    """Until standard input ends or falls silent; then this process is asked to end, however far it is."""
    while select.select([0], [], [], TETHER)[0] and os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _stream() -> Callable[[Dict[str, Any]], None]:
    """Agent 0's stream on standard output, which from here on is ours alone: what others print goes to the log."""
    stream = os.dup(1)
    os.dup2(2, 1)

    def emit(message: Dict[str, Any]) -> None:
        data = json.dumps(message, allow_nan=False).encode() + b"\n"
        try:
            while data:
                data = data[os.write(stream, data) :]
        except OSError:
            pass  # nobody listens any more; the tether tells

    return emit


def _asked(bundle: str, file: str, python: Optional[str]) -> Request:
    """A request of the bundle, for this interpreter if one is named."""
    request = Request.from_dict(json.loads(member(bundle, file)))
    return request if python is None else request._replace(command=[python])
