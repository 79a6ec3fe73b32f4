"""Connect the agents of a run with each other, without a configured port or a shared file.

Every agent derives the same few ports from the bundle's secret. Agent 0 listens on the first one that is free on its
node; the others try the ports in turn until a listener proves to be this run's coordinator. An agent below a relay asks
the coordinator for the relay's address, and connects to that instead.
"""

import functools
import hashlib
import hmac
import random
import socket
import time
from typing import Any, Callable, List, Sequence, TypeVar

from dlperf_sdk.worker.agent import link
from dlperf_sdk.worker.agent.tree import Tree
from dlperf_sdk.worker.network import USUAL

CANDIDATES = 8
_CONNECT_TIMEOUT = 5.0
"""Seconds that one connection may take, proof included."""
_RETRY = 0.1
"""Seconds before the ports are tried again; it doubles up to a second."""
_QUESTIONS = 1000
"""Questions for relays that agents send to the coordinator in a second, once their relays are long in coming."""
_RESOLVE_TIMEOUT = 10.0
"""Seconds in which a host's name must be resolved: the name service may be as new as the node."""


def candidate_ports(secret: str, allowed: Sequence[int] = ()) -> List[int]:
    """Return `CANDIDATES` (8) different ports to try, or all if fewer are allowed.

    The secret determines which ports, and their order.

    Args:
        secret: The bundle's secret.
        allowed: The ports that may be used; empty for `network.USUAL` (20000 to 31999).
    """
    allowed = allowed or USUAL
    candidates: List[int] = []
    number = 0
    while len(candidates) < min(CANDIDATES, len(allowed)):
        digest = hmac.new(secret.encode(), b"port %d" % number, hashlib.sha256).digest()
        port = allowed[int.from_bytes(digest[:4], "big") % len(allowed)]
        if port not in candidates:
            candidates.append(port)
        number += 1
    return candidates


def listen(host: str, candidates: Sequence[int]) -> socket.socket:
    """Listen on the first candidate that is free on this address, and on no other address.

    Args:
        host: The address.
        candidates: The ports to try, in order; 0 stands for any free port.

    Raises:
        OSError: No candidate is free.
    """
    for port in candidates:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            listener.listen(1024)
        except OSError:
            listener.close()
            continue
        return listener
    raise OSError("none of the ports %s is free on %s" % (", ".join(map(str, candidates)), host))


def join(
    host: str, candidates: Sequence[int], secret: str, timeout: float, tree: Tree, node: int
) -> link.Link:
    """Connect a node's agent to its parent in the tree: this run's coordinator, or a relay.

    Args:
        host: Name or address of the coordinator's node.
        candidates: The coordinator's ports to try, in order.
        secret: The bundle's secret.
        timeout: Seconds to try.
        tree: The tree of the case's nodes.
        node: Number of the node.

    Raises:
        OSError: The coordinator or the relay was not found in time, or the host's name is still unknown after ten
            seconds.
    """
    deadline, parent = time.monotonic() + timeout, tree.parent(node)
    if parent == 0:
        return connect(host, candidates, secret, timeout)
    ask = functools.partial(link.ask_for_relay, node=node)
    longest = max(1.0, tree.nodes / _QUESTIONS)
    pause = longest / 10
    while True:
        relay = _call(host, candidates, secret, deadline - time.monotonic(), ask)
        reason = "it has not started one"
        if relay is not None:
            try:
                return link.connect(relay, secret, _CONNECT_TIMEOUT)
            except OSError as error:
                reason = "%s, port %d: %s. Open the ports between the nodes" % (relay[0], relay[1], error)
        if time.monotonic() + pause > deadline:
            raise OSError("no relay of this run on node %d: %s" % (parent, reason))
        time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - so that not all ask at once
        pause = min(longest, 2 * pause)


def connect(host: str, candidates: Sequence[int], secret: str, timeout: float) -> link.Link:
    """Connect to this run's coordinator, which may not listen yet, and retry until it does.

    Args:
        host: Name or address of the coordinator's node.
        candidates: The ports to try, in order.
        secret: The bundle's secret.
        timeout: Seconds to try.

    Raises:
        OSError: The coordinator was not found in time, or the host's name is still unknown after ten seconds.
    """
    return _call(host, candidates, secret, timeout, link.connect)


_T = TypeVar("_T")


def _call(
    host: str, candidates: Sequence[int], secret: str, timeout: float, call: Callable[[Any, str, float], _T]
) -> _T:
    """Try `call` on the ports until the coordinator answers; return its value. Arguments and errors are `connect`'s."""
    started = time.monotonic()
    deadline, resolve_deadline = started + timeout, started + _RESOLVE_TIMEOUT
    pause, last_error = _RETRY, None
    while True:
        for port in candidates:
            try:
                return call((host, port), secret, _CONNECT_TIMEOUT)
            except socket.gaierror as error:
                if time.monotonic() > min(resolve_deadline, deadline):
                    message = (
                        "the host name %r is unknown on this node (%s); use names that the nodes can resolve"
                    )
                    raise OSError(message % (host, error.strerror)) from error
                break
            except OSError as error:
                last_error = error
        if time.monotonic() + pause > deadline:
            raise OSError(
                "no coordinator of this run on %s, ports %s: %s" % (host, list(candidates), last_error)
            )
        time.sleep(pause)
        pause = min(1.0, 2 * pause)
