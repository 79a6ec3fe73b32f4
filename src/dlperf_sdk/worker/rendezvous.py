"""How the agents of a run find each other: no port is typed, and no file is shared.

Everybody who holds the bundle's secret reckons the same few ports from it. Agent 0 listens on the first that is free
there; the others try them in turn until somebody proves to be this run's coordinator.
"""

import hashlib
import hmac
import socket
import time
from typing import List, Sequence

from dlperf_sdk.worker import link

CANDIDATES = 8
_LOWEST, _COUNT = 20000, 12000
"""Below 32768, from where Linux takes the ports of outgoing connections (`ip_local_port_range`)."""
_CALL = 5.0
"""Seconds that one call may take, proof included."""
_AGAIN = 0.1
"""Seconds before the ports are tried anew; it doubles up to a second."""


def ports(secret: str) -> List[int]:
    """The candidates, in the order in which they are tried."""
    found: List[int] = []
    number = 0
    while len(found) < CANDIDATES:
        told = hmac.new(secret.encode(), b"port %d" % number, hashlib.sha256).digest()
        port = _LOWEST + int.from_bytes(told[:4], "big") % _COUNT
        if port not in found:
            found.append(port)
        number += 1
    return found


def listen(host: str, candidates: Sequence[int]) -> socket.socket:
    """Agent 0: a listener on the first candidate that is free on this address, and on no other address.

    Raises:
        OSError: none of them is.
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


def meet(host: str, candidates: Sequence[int], secret: str, patience: float) -> link.Link:
    """The others: the link to this run's coordinator on `host`, which may not listen yet.

    Raises:
        OSError: it was not found within `patience` seconds; says what happened last.
    """
    end, pause, last = time.monotonic() + patience, _AGAIN, None
    while True:
        for port in candidates:
            try:
                return link.connect((host, port), secret, _CALL)
            except OSError as error:
                last = error
        if time.monotonic() + pause > end:
            raise OSError("no coordinator of this run on %s, ports %s: %s" % (host, list(candidates), last))
        time.sleep(pause)
        pause = min(1.0, 2 * pause)
