"""How the agents of a run find each other: no port is typed, and no file is shared.

Everybody who holds the bundle's secret reckons the same few ports from it. Agent 0 listens on the first that is free
there; the others try them in turn until somebody proves to be this run's coordinator.
"""

import hashlib
import hmac
import socket
import time
from typing import List, Sequence

from dlperf_sdk.worker.agent import link
from dlperf_sdk.worker.network import USUAL

CANDIDATES = 8
_CALL = 5.0
"""Seconds that one call may take, proof included."""
_AGAIN = 0.1
"""Seconds before the ports are tried anew; it doubles up to a second."""
_NAMED = 10.0
"""Seconds in which a host's name must be found: who serves names may be as new as the node."""


def ports(secret: str, among: Sequence[int] = ()) -> List[int]:
    """The candidates, in the order in which they are tried; `among` is where they may be, if that was said."""
    place = among or USUAL
    found: List[int] = []
    number = 0
    while len(found) < min(CANDIDATES, len(place)):
        told = hmac.new(secret.encode(), b"port %d" % number, hashlib.sha256).digest()
        port = place[int.from_bytes(told[:4], "big") % len(place)]
        if port not in found:
            found.append(port)
        number += 1
    return found


def listen(host: str, candidates: Sequence[int]) -> socket.socket:
    """A listener on the first candidate that is free on this address, and on no other address.

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
        OSError: it was not found within `patience` seconds, or its name is not known; says what happened last.
    """
    began = time.monotonic()
    end, named, pause, last = began + patience, began + _NAMED, _AGAIN, None
    while True:
        for port in candidates:
            try:
                return link.connect((host, port), secret, _CALL)
            except socket.gaierror as error:
                if time.monotonic() > min(named, end):
                    said = "the host name %r is not known there (%s); name the hosts by what the nodes know them by"
                    raise OSError(said % (host, error.strerror)) from error
                break
            except OSError as error:
                last = error
        if time.monotonic() + pause > end:
            raise OSError("no coordinator of this run on %s, ports %s: %s" % (host, list(candidates), last))
        time.sleep(pause)
        pause = min(1.0, 2 * pause)
