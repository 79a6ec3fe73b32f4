"""Connect the agents of a run with each other: no port is typed, and no file is shared.

Every agent derives the same few ports from the bundle's secret. Agent 0 listens on the first that is free on its node;
the others try them in turn until a listener proves to be this run's coordinator.
"""

import hashlib
import hmac
import socket
import time
from typing import List, Sequence

from dlperf_sdk.worker.agent import link
from dlperf_sdk.worker.network import USUAL

CANDIDATES = 8
_CONNECT_TIMEOUT = 5.0
"""Seconds that one connection may take, proof included."""
_RETRY = 0.1
"""Seconds before the ports are tried again; it doubles up to a second."""
_RESOLVE_TIMEOUT = 10.0
"""Seconds in which a host's name must be resolved: the name service may be as new as the node."""


def candidate_ports(secret: str, allowed: Sequence[int] = ()) -> List[int]:
    """Return the ports to try, in an order that follows from the secret.

    `allowed` limits the ports, if it is not empty.
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

    Raises:
        OSError: no candidate is free.
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


def connect(host: str, candidates: Sequence[int], secret: str, timeout: float) -> link.Link:
    """Connect to this run's coordinator on `host`, which may not listen yet.

    Raises:
        OSError: the coordinator was not found within `timeout` seconds, or the host's name is unknown.
    """
    started = time.monotonic()
    deadline, resolve_deadline = started + timeout, started + _RESOLVE_TIMEOUT
    pause, last_error = _RETRY, None
    while True:
        for port in candidates:
            try:
                return link.connect((host, port), secret, _CONNECT_TIMEOUT)
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
