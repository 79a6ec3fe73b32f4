"""The ring all-reduce of the host, without MegEngine, over real sockets."""

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

# Part of the worker half: it needs NumPy, and no MegEngine.
from dlperf_megengine.worker.ring import Ring

from dlperf_sdk.worker.network import free_ports


def addresses(size):
    return ["127.0.0.1:" + port for port in free_ports("127.0.0.1", size)]


def run_ring(size, work, case="case"):
    """Return what `work(ring)` returned in each rank's thread."""
    places = addresses(size)

    def run(rank):
        ring = Ring(case, rank, size, places[rank], places[(rank + 1) % size], 60.0)
        try:
            return work(ring)
        finally:
            ring.close()

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(run, range(size)))


def vector(rank, length):
    return np.random.RandomState(rank).standard_normal(length).astype(np.float32)


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("length", [1, 4, 1000, 300_001])
def test_all_processes_get_the_same_sum(size, length):
    """Also of vectors with fewer elements than processes, and larger than the buffers of a socket."""

    def work(ring):
        values = vector(ring.rank, length)
        ring.sum(values)
        ring.sum(again := vector(ring.rank + 10, length))
        return values, again

    sums = run_ring(size, work)
    for number, first in enumerate((0, 10)):
        expected = sum(vector(first + rank, length).astype(np.float64) for rank in range(size))
        np.testing.assert_allclose(sums[0][number], expected, atol=2e-6)
        assert all((other[number] == sums[0][number]).all() for other in sums)


def test_the_order_of_starting_is_free():
    def work(ring):
        values = np.float32([ring.rank + 1])
        ring.sum(values)
        return values[0]

    places = addresses(2)

    def run(rank):
        time.sleep(0.5 * rank)
        ring = Ring("case", rank, 2, places[rank], places[1 - rank], 60.0)
        result = work(ring)
        ring.close()
        return result

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(run, range(2))) == [3.0, 3.0]


def test_a_missing_process_is_an_error_with_its_address():
    here, there = addresses(2)
    with pytest.raises(TimeoutError, match=there):
        Ring("case", 0, 2, here, there, 0.2)


def test_a_neighbor_that_ends_is_an_error():
    def work(ring):
        if ring.rank == 0:
            return None
        with pytest.raises(ConnectionError, match="has ended"):
            ring.sum(np.zeros(1000, np.float32))
        return "told"

    assert run_ring(2, work) == [None, "told"]


def test_processes_of_another_case_are_turned_away():
    places = addresses(2)
    stranger = threading.Event()

    def disturb():
        host, port = places[0].split(":")
        while True:
            try:
                connection = socket.create_connection((host, int(port)), 1.0)
                break
            except OSError:
                time.sleep(0.01)
        with connection:
            connection.sendall(b"x" * 32)
            stranger.set()
            assert connection.recv(1) == b""

    def run(rank):
        if rank == 1:
            stranger.wait(60)
        ring = Ring("case", rank, 2, places[rank], places[1 - rank], 60.0)
        values = np.float32([rank + 1])
        ring.sum(values)
        ring.close()
        return values[0]

    with ThreadPoolExecutor(3) as pool:
        disturbing = pool.submit(disturb)
        assert list(pool.map(run, range(2))) == [3.0, 3.0]
        disturbing.result(60)
