"""JSON lines over a socket between a node's agent and the coordinator or a relay, opened by proof of the secret."""

import hashlib
import hmac
import json
import os
import socket
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from dlperf_sdk.worker.json_memory import excess_memory

LONGEST_LINE = 128 * 1024 * 1024
"""Maximum number of bytes of a message; a peer that sends more is disconnected."""
LONGEST_PROOF = 1024
"""Maximum number of bytes that a peer may send in one message before it has proved that it holds the secret."""
MOST_MEMORY = 1024 * 1024 * 1024
"""Maximum memory in bytes for a message, estimated before it is parsed: numbers of `LONGEST_LINE` bytes take less."""
SILENCE = 15.0
"""Seconds without a heartbeat after which the other side counts as lost. Each side sends one every two seconds."""
FindRelay = Callable[[Any], Optional[List[Any]]]
"""A function that takes what a peer sent as a node's number, and returns address and port of the relay to which that
node's agent connects; None if there is none yet."""
_TCP_USER_TIMEOUT = getattr(socket, "TCP_USER_TIMEOUT", 18)


def _reject_constant(name: str) -> None:
    raise ValueError("%s is not a JSON number" % name)


_DECODER = json.JSONDecoder(parse_constant=_reject_constant)


class Link:
    """One connection between an agent and the coordinator or a relay.

    Sending is safe from several threads; receiving is for one thread.

    Args:
        connection: The connected socket, which the link closes.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        """Read and written by `Exchange` instead of this class once it serves the link."""
        self._reader = connection.makefile("rb")
        self._lock = threading.Lock()
        self.address, self.port = connection.getsockname()[:2]
        """This side's address and port, as the other side reaches it."""

    def send(self, message: Dict[str, Any]) -> bool:
        """Send a message, and wait until the system has taken it.

        Returns:
            True; False if the other side is gone.

        Raises:
            ValueError: The message contains a number that is not finite.
        """
        return self.send_line(encode(message))

    def send_line(self, line: bytes) -> bool:
        """Send a line that `encode` returned, and wait until the system has taken it.

        Returns:
            True; False if the other side is gone.
        """
        try:
            with self._lock:
                self.socket.sendall(line)
        except OSError:
            return False
        return True

    def messages(self) -> Iterator[Dict[str, Any]]:
        """Yield messages until the connection closes, or one is malformed or reaches `LONGEST_LINE` (128 MiB)."""
        while True:
            try:
                message = parse(self._reader.readline(LONGEST_LINE))
            except OSError:
                return
            if message is None:
                return
            yield message

    def shut_down(self) -> None:
        """Shut the connection down: both sides, and the threads that read here, see its end."""
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the other side was faster

    def close(self) -> None:
        """Shut the connection down, and close it."""
        self.shut_down()
        self._reader.close()
        self.socket.close()


def encode(message: Dict[str, Any]) -> bytes:
    """Return the line of a message, with its line feed.

    Raises ValueError if it contains a number that is not finite.
    """
    return json.dumps(message, allow_nan=False).encode() + b"\n"


def parse(line: bytes) -> Optional[Dict[str, Any]]:
    """Return the message on a line; None if the line is not a message.

    A message is an object in JSON without NaN and infinity, followed by a line feed. A line is no message if parsing it
    could take more than `MOST_MEMORY` (1 GiB).
    """
    if not line.endswith(b"\n") or excess_memory(line, MOST_MEMORY):
        return None
    try:
        message = _DECODER.decode(line.decode())
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def _opening(connection: socket.socket, deadline: float) -> Dict[str, Any]:
    """Read one message of the opening; empty if none came before the deadline, however the bytes are spread.

    It takes nothing of what follows the line, and at most `LONGEST_PROOF` bytes.
    """
    line = b""
    try:
        while not line.endswith(b"\n") and len(line) < LONGEST_PROOF:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                break
            connection.settimeout(remaining)
            waiting = connection.recv(LONGEST_PROOF - len(line), socket.MSG_PEEK)
            if not waiting:
                break
            line += connection.recv(waiting.find(b"\n") + 1 or len(waiting))
    except OSError:
        return {}
    return parse(line) or {}


def _proof(secret: str, side: str, challenge: str, answer: str, port: int) -> str:
    """Return the HMAC-SHA256 that proves `side`'s knowledge of the secret.

    It covers both challenges and the port, so a proof replayed from another conversation or port is invalid.
    """
    transcript = "\0".join((side, challenge, answer, str(port)))
    return hmac.new(secret.encode(), transcript.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


def _is_equal(left: Any, right: str) -> bool:
    return hmac.compare_digest(str(left).encode("utf-8", "replace"), right.encode())


def connect(address: Any, secret: str, timeout: float) -> Link:
    """Connect an agent to the coordinator or to a relay; both prove that they hold the bundle's secret.

    Args:
        address: Host and port of the coordinator or the relay.
        secret: The bundle's secret.
        timeout: Seconds for the connection and the proofs together.

    Raises:
        OSError: The address accepts no connection, or the other side does not prove in time that it holds the secret.
    """
    link = _open(address, secret, timeout, {})[0]
    _keep(link.socket)
    return link


def ask_for_relay(address: Any, secret: str, timeout: float, node: int) -> Optional[Tuple[str, int]]:
    """Ask the coordinator for the address and port of the relay to which a node's agent connects.

    The question and the answer travel with the proofs, and the connection is closed afterwards. The proofs do not cover
    them: the relay at that address must prove that it holds the secret, as the coordinator must.

    Args:
        address: Host and port of the coordinator.
        secret: The bundle's secret.
        timeout: Seconds for the connection, the proofs and the answer together.
        node: Number of the node.

    Returns:
        Address and port; None if the relay has not been started.

    Raises:
        OSError: The address accepts no connection, the coordinator does not prove in time that it holds the secret, or
            it closed the connection to make room for others.
    """
    link, reply = _open(address, secret, timeout, {"seeks_relay_of": node})
    link.close()
    relay = reply.get("relay")
    if not isinstance(relay, list) or [type(value) for value in relay] != [str, int]:
        return None
    return relay[0], relay[1]


def _open(address: Any, secret: str, timeout: float, question: Dict[str, Any]) -> Tuple[Link, Dict[str, Any]]:
    """Connect, exchange the proofs and a question, and return the link and the message with the other side's proof."""
    deadline = time.monotonic() + timeout
    connection = socket.create_connection(address, timeout)
    link = Link(connection)
    challenge, answer = str(_opening(connection, deadline).get("challenge")), os.urandom(16).hex()
    port = address[1]
    link.send(dict(question, proof=_proof(secret, "agent", challenge, answer, port), challenge=answer))
    reply = _opening(connection, deadline)
    if not _is_equal(reply.get("proof"), _proof(secret, "coordinator", challenge, answer, port)):
        link.close()
        raise ConnectionRefusedError(
            "the process that listens on %s:%s is not the coordinator of this run" % tuple(address[:2])
        )
    return link, reply


def accept(
    connection: socket.socket,
    secret: str,
    timeout: float,
    admit: Callable[[], bool] = lambda: True,
    find_relay: FindRelay = lambda node: None,
) -> Optional[Link]:
    """Check an accepted connection: the peer and this side prove that they hold the bundle's secret.

    A peer that has proved it and asks for a relay gets the answer, and its connection is closed.

    Args:
        connection: The accepted connection; closed unless a link is returned.
        secret: The bundle's secret.
        timeout: Seconds for the proofs of both sides together.
        admit: Called after the peer's proof and before this side's; if it returns False, the peer is rejected.
        find_relay: Called with the node's number if the peer asks for its relay; returns the relay's address and port,
            or None if the relay has not been started.

    Returns:
        This side's link; None if the peer did not prove in time that it holds the secret, was rejected, or asked for
        its relay.
    """
    deadline = time.monotonic() + timeout
    connection.settimeout(timeout)
    link = Link(connection)
    challenge = os.urandom(16).hex()
    link.send({"challenge": challenge})
    opening = _opening(connection, deadline)
    answer, port = str(opening.get("challenge")), link.port
    proven = _is_equal(opening.get("proof"), _proof(secret, "agent", challenge, answer, port))
    reply = {"proof": _proof(secret, "coordinator", challenge, answer, port)}
    if proven and "seeks_relay_of" in opening:
        link.send(dict(reply, relay=find_relay(opening["seeks_relay_of"])))
    elif proven and admit():
        link.send(reply)
        _keep(connection)
        return link
    link.close()
    return None


def _keep(connection: socket.socket) -> None:
    """Remove all time-outs but that of unacknowledged data, which closes the connection of a node without network."""
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.IPPROTO_TCP, _TCP_USER_TIMEOUT, int(SILENCE * 1000))
