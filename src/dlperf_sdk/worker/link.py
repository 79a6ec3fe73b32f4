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
        """What comes in, until the other side goes, or says what is no message, or a longer one."""
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


def _proof(secret: str, challenge: str) -> str:
    return hmac.new(secret.encode(), challenge.encode(), hashlib.sha256).hexdigest()


def connect(address: Any, secret: str, timeout: float) -> Link:
    """Agent: call the coordinator and prove that this is the same bundle. Raises OSError."""
    connection = socket.create_connection(address, timeout)
    link = Link(connection)
    challenge = next(link.messages(LONGEST_PROOF), {})
    link.send({"proof": _proof(secret, str(challenge.get("challenge")))})
    connection.settimeout(None)
    return link


def accept(connection: socket.socket, secret: str, timeout: float) -> Any:
    """Coordinator: the link, if the caller proves that it holds the secret in time; else None."""
    connection.settimeout(timeout)
    link = Link(connection)
    challenge = os.urandom(16).hex()
    link.send({"challenge": challenge})
    answer = next(link.messages(LONGEST_PROOF), {})
    if not hmac.compare_digest(
        str(answer.get("proof")).encode("utf-8", "replace"), _proof(secret, challenge).encode()
    ):
        link.close()
        return None
    connection.settimeout(None)
    return link
