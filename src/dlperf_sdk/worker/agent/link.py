"""JSON lines over a socket between a node's agent and the coordinator, opened by proof of the bundle's secret."""

import hashlib
import hmac
import json
import os
import socket
import threading
from typing import Any, Dict, Iterator

LONGEST_LINE = 256 * 1024 * 1024
"""Bytes; a peer that sends more is cut off."""
LONGEST_PROOF = 1024
"""Bytes that a peer may send before it has proved itself."""
SILENCE = 15.0
"""Seconds without a sign of life after which the other side counts as lost; both give one every two."""
_TCP_USER_TIMEOUT = getattr(socket, "TCP_USER_TIMEOUT", 18)


class Link:
    """One connection. Sending is safe from several threads; receiving is for one."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._reader = connection.makefile("rb")
        self._lock = threading.Lock()
        self.address = connection.getsockname()[0]
        """This side's address, as the other side reaches it."""

    def send(self, message: Dict[str, Any]) -> bool:
        """False if the other side has gone."""
        line = json.dumps(message, allow_nan=False).encode() + b"\n"
        try:
            with self._lock:
                self._socket.sendall(line)
        except OSError:
            return False
        return True

    def messages(self, longest: int = LONGEST_LINE) -> Iterator[Dict[str, Any]]:
        """Yield messages until the connection closes, or until one is malformed or longer than `longest` bytes."""
        while True:
            try:
                line = self._reader.readline(longest)
                message = json.loads(line.decode()) if line.endswith(b"\n") else None
            except (OSError, ValueError, RecursionError):
                return
            if not isinstance(message, dict):
                return
            yield message

    def close(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the other side was faster
        self._reader.close()
        self._socket.close()


def _proof(secret: str, side: str, challenge: str, answer: str, port: int) -> str:
    """Return the HMAC-SHA256 that proves `side`'s knowledge of the secret.

    It covers both challenges and the port, so a proof replayed from another conversation or port is invalid.
    """
    told = "\0".join((side, challenge, answer, str(port)))
    return hmac.new(secret.encode(), told.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


def _same(one: Any, other: str) -> bool:
    return hmac.compare_digest(str(one).encode("utf-8", "replace"), other.encode())


def connect(address: Any, secret: str, timeout: float) -> Link:
    """Agent: call the coordinator, and prove to each other that both hold the bundle's secret.

    Raises:
        OSError: nobody listens there, or it is somebody else.
    """
    connection = socket.create_connection(address, timeout)
    connection.settimeout(timeout)
    link = Link(connection)
    received = link.messages(LONGEST_PROOF)
    challenge, answer = str(next(received, {}).get("challenge")), os.urandom(16).hex()
    port = address[1]
    link.send({"proof": _proof(secret, "agent", challenge, answer, port), "challenge": answer})
    if not _same(next(received, {}).get("proof"), _proof(secret, "coordinator", challenge, answer, port)):
        link.close()
        raise ConnectionRefusedError(
            "who listens on %s:%s is no coordinator of this run" % tuple(address[:2])
        )
    _keep(connection)
    return link


def accept(connection: socket.socket, secret: str, timeout: float) -> Any:
    """Coordinator: the link, if the caller proves that it holds the secret in time; else None."""
    connection.settimeout(timeout)
    link = Link(connection)
    challenge = os.urandom(16).hex()
    link.send({"challenge": challenge})
    told = next(link.messages(LONGEST_PROOF), {})
    answer, port = str(told.get("challenge")), connection.getsockname()[1]
    if not _same(told.get("proof"), _proof(secret, "agent", challenge, answer, port)):
        link.close()
        return None
    link.send({"proof": _proof(secret, "coordinator", challenge, answer, port)})
    _keep(connection)
    return link


def _keep(connection: socket.socket) -> None:
    """For the rest of the run: no time-outs but that of data which nobody acknowledges, as of a node cut off."""
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.IPPROTO_TCP, _TCP_USER_TIMEOUT, int(SILENCE * 1000))
