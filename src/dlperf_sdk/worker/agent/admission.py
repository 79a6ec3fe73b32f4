"""Accept connections to the coordinator or a relay as long as the run lasts; admit peers that prove the secret."""

import resource
import socket
import threading
import time
from typing import Callable, Dict

from dlperf_sdk.worker.agent import link
from dlperf_sdk.worker.agent.descriptors import raise_descriptor_limit

MOST_UNPROVEN = 64
"""Maximum number of open connections without proof of the secret; one more closes the oldest of them."""
PROOF_TIMEOUT = 10.0
"""Seconds for the whole exchange in which a peer proves that it holds the bundle's secret."""
_PROOF_TIMEOUT_HERE = 1.0
"""The same for a peer that gets no thread of its own."""
_SPARE_DESCRIPTORS = 256
"""Descriptors that an agent needs besides one per link: unproven peers, its own workers, logs and samplers."""
_RETRY = 0.02
"""Seconds before accepting again when the system had no descriptor or thread left."""


class Admission(threading.Thread):
    """A thread that accepts connections until its listener is closed, and admits peers that hold the secret.

    Each peer gets its own thread. If the system has no thread left, this thread admits the peer itself.

    Args:
        listener: The listening socket.
        secret: The bundle's secret.
        links: Number of links that are expected; the limit of open files is raised for them.
        serve: Called with the link of each admitted peer, in the peer's thread.
        find_relay: Called with a node's number, in the peer's thread, if the peer holds the secret and asks for the
            node's relay. Returns the relay's address and port, or None if the relay has not been started.
    """

    def __init__(
        self,
        listener: socket.socket,
        secret: str,
        links: int,
        serve: Callable[[link.Link], object],
        find_relay: link.FindRelay = lambda node: None,
    ) -> None:
        super().__init__(daemon=True)
        self._listener, self._secret, self._links = listener, secret, links
        self._serve, self._find_relay = serve, find_relay
        self._lock = threading.Lock()
        self._unproven: Dict[socket.socket, bool] = {}
        self.shortage = ""
        """A clause that names the resource which ran out on this node while accepting; empty if none did."""

    def run(self) -> None:
        """Accept connections until the listener is closed; serve each peer that proves that it holds the secret.

        This runs in the thread that `start` starts.
        """
        raise_descriptor_limit(self._links + _SPARE_DESCRIPTORS)
        while self._listener.fileno() >= 0:
            try:
                connection, _ = self._listener.accept()
            except OSError as error:
                self._run_short(error)
                continue
            with self._lock:
                self._unproven[connection] = True
                crowded = len(self._unproven) > MOST_UNPROVEN
            if crowded:
                self._close_oldest()
            try:
                threading.Thread(target=self._admit, args=(connection,), daemon=True).start()
            except (RuntimeError, MemoryError):
                self._admit_here(connection)

    def _run_short(self, error: Exception) -> None:
        """Note that a descriptor or thread was refused, and make room; connections in the queue wait meanwhile."""
        if self._listener.fileno() < 0:
            return
        self.shortage = (
            "not every connection could be accepted (%s; %d descriptors allowed): raise `ulimit -n` and `ulimit -u`"
            % (error, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        )
        self._close_oldest()
        time.sleep(_RETRY)

    def _close_oldest(self) -> None:
        """End the oldest unproven connection: an agent answers within a round trip, and otherwise tries again."""
        with self._lock:
            oldest = next(iter(self._unproven), None)
            if oldest is None:
                return
            del self._unproven[oldest]
            try:
                oldest.shutdown(socket.SHUT_RDWR)  # its thread closes it
            except OSError:
                pass  # the peer was faster

    def _withdraw(self, connection: socket.socket) -> bool:
        """Take a connection from the unproven ones; False if it was closed as the oldest of them."""
        with self._lock:
            return self._unproven.pop(connection, False)

    def _admit_here(self, connection: socket.socket) -> None:
        """Admit a peer in this thread, which must not end and has less time for each: others wait meanwhile."""
        try:
            self._admit(connection, _PROOF_TIMEOUT_HERE)
        except (RuntimeError, MemoryError, OSError) as error:
            connection.close()
            self._run_short(error)

    def _admit(self, connection: socket.socket, timeout: float = PROOF_TIMEOUT) -> None:
        try:
            joined = link.accept(
                connection, self._secret, timeout, lambda: self._withdraw(connection), self._find_relay
            )
        finally:
            self._withdraw(connection)
        if joined is not None:
            self._serve(joined)
