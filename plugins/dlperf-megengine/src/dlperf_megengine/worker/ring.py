"""A ring of processes that sum vectors over TCP: the all-reduce on CPUs, for which MegEngine has no collectives.

The algorithm is the ring all-reduce of Patarasuk and Yuan 2009: each process sends and receives 2 · (n - 1) / n of the
vector, whatever the number n of processes. All processes get bitwise the same sum.
"""

import hashlib
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

_RETRY = 0.05
"""Seconds between attempts to connect to a process that does not listen yet."""
_PATIENCE = 10.0
"""Seconds that a process which has connected may take to tell its case and rank."""


class Ring:
    """One process of a ring of processes, connected by TCP to the previous and the next process.

    Args:
        case: The identifier of the case; processes of other cases are turned away.
        rank: The number of this process, counted from 0.
        size: The number of processes, at least 2.
        address: The host and port, HOST:PORT, at which this process listens for the previous one.
        next_address: The host and port, HOST:PORT, of the next process, whose rank is (rank + 1) % size.
        timeout: Seconds to wait for the two processes.

    Raises:
        TimeoutError: One of the two processes did not connect in time.
        OSError: `address` cannot be listened at.
    """

    def __init__(self, case, rank, size, address, next_address, timeout):
        self.rank, self.size = rank, size
        deadline = time.monotonic() + timeout
        with socket.create_server(_parse(address)) as listener:
            self._next = _connect(_parse(next_address), deadline)
            self._next.sendall(_greeting(case, rank))
            self._previous = _accept(listener, _greeting(case, (rank - 1) % size), deadline)
        for connection in (self._next, self._previous):
            connection.settimeout(None)  # later, the agents hold the deadlines
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sender = ThreadPoolExecutor(1)

    def sum(self, values):
        """Replace the vector `values` by its sum over all processes; return when this has finished.

        Every process must call this with a vector of the same size.

        Args:
            values: A contiguous one-dimensional NumPy array, changed in place.

        Raises:
            ConnectionError: The previous or the next process has ended.
            OSError: The network failed.
        """
        parts = np.array_split(values, self.size)
        incoming = np.empty_like(parts[0])
        for step in range(self.size - 1):
            target = parts[(self.rank - step - 1) % self.size]
            self._exchange(parts[(self.rank - step) % self.size], incoming[: target.size])
            target += incoming[: target.size]
        for step in range(self.size - 1):
            self._exchange(parts[(self.rank - step + 1) % self.size], parts[(self.rank - step) % self.size])

    def _exchange(self, outgoing, incoming):
        """Send one array to the next process, and at the same time receive one from the previous process."""
        sent = self._sender.submit(self._next.sendall, outgoing.view(np.uint8))
        _receive(self._previous, incoming.view(np.uint8))
        sent.result()

    def close(self):
        """Close the connections to both neighbors, and end the thread that sends."""
        self._sender.shutdown()
        self._next.close()
        self._previous.close()


def _parse(address):
    """Return the pair of host and port of HOST:PORT."""
    host, port = address.rsplit(":", 1)
    return host, int(port)


def _greeting(case, rank):
    """Return the bytes that a process sends first: they tell the case and the rank."""
    return hashlib.sha256(("%s %d" % (case, rank)).encode()).digest()


def _connect(address, deadline):
    """Return a connection to an address, at which a process may not listen yet."""
    while True:
        try:
            return socket.create_connection(address, max(_RETRY, deadline - time.monotonic()))
        except OSError as error:
            if time.monotonic() > deadline:
                raise TimeoutError(
                    "the next process of the ring does not listen at %s:%d" % address
                ) from error
            time.sleep(_RETRY)


def _accept(listener, greeting, deadline):
    """Return the connection whose first bytes are the greeting; close all others."""
    while True:
        listener.settimeout(max(_RETRY, deadline - time.monotonic()))
        connection, _ = listener.accept()
        connection.settimeout(_PATIENCE)
        received = np.empty(len(greeting), np.uint8)
        try:
            _receive(connection, received)
        except OSError:
            received[:] = 0
        if received.tobytes() == greeting:
            return connection
        connection.close()


def _receive(connection, buffer):
    """Fill an array of bytes from a connection."""
    rest = memoryview(buffer)
    while rest:
        count = connection.recv_into(rest)
        if count == 0:
            raise ConnectionError("the previous process of the ring has ended; its log may say why")
        rest = rest[count:]
