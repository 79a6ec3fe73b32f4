"""Messages that carry batches: what is packed is unpacked, and nothing else is."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dlperf_sdk.worker.interface import InputCounts
from dlperf_sdk.worker.processes import Cluster, Node
from dlperf_sdk.worker.unsupported import Unsupported
from dlperf_sdk.worker.zmq_messages import (
    LONGEST_HEADER,
    Batch,
    MalformedBatch,
    address_of,
    pack,
    unpack,
)

ARRAYS = {
    "image": np.arange(24, dtype=np.float32).reshape(2, 3, 4),
    "label": np.array([3, 1], np.int64),
    "is_next": np.array([True, False]),
}
BATCH = Batch(ARRAYS, InputCounts(7, 0.25, 11), [2, 3])


class Case:
    devices_per_node = 2

    def __init__(self, source):
        self.data = {"source": source}


def frames():
    return [bytes(frame) for frame in pack(BATCH)]


def with_header(**changes):
    header, *arrays = frames()
    return [json.dumps({**json.loads(header), **changes}).encode(), *arrays]


def test_a_batch_survives_its_message():
    received = unpack(frames(), ARRAYS)
    assert (received.counts, received.cpus) == (BATCH.counts, BATCH.cpus)
    for name, values in ARRAYS.items():
        assert received.arrays[name].dtype == values.dtype
        np.testing.assert_array_equal(received.arrays[name], values)


def test_arrays_are_writable_and_aligned():
    memory = bytearray(b"x") + ARRAYS["image"].tobytes()
    header, _, *others = frames()
    received = unpack([header, memoryview(memory)[1:], *others], ARRAYS)
    assert all(array.flags.aligned and array.flags.writeable for array in received.arrays.values())
    np.testing.assert_array_equal(received.arrays["image"], ARRAYS["image"])


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (frames()[:-1], "a header and 3 arrays, got 3 frames"),
        ([*frames(), b""], "got 5 frames"),
        ([frames()[0], frames()[1][:-4], *frames()[2:]], "expected 96 bytes of image, got 92"),
        ([frames()[0], frames()[1] * 2, *frames()[2:]], "got 192"),
        ([b" " * (LONGEST_HEADER + 1), *frames()[1:]], "at most 65536 bytes"),
        ([b"{", *frames()[1:]], "malformed header"),
        ([b"[" * 60000, *frames()[1:]], "malformed header"),
        ([b"\xff", *frames()[1:]], "malformed header"),
        (with_header(counts=[1, 2]), "malformed header"),
        (with_header(counts=[1, "soon", 2]), "malformed header"),
        (with_header(counts=[float("inf"), 1, 2]), "malformed header"),
        (with_header(counts=[1, float("nan"), 2]), "malformed header"),
        (with_header(counts=[1, -1.0, 2]), "negative or impossible"),
        (with_header(counts=[10**400, 1.0, 2]), "malformed header"),
        (with_header(cpus=[2**60]), "negative or impossible"),
        (with_header(cpus=None), "malformed header"),
        (with_header(arrays=[["image", "<f8", [2, 3, 4]]]), "expected the arrays"),
        (with_header(arrays=[]), "expected the arrays"),
    ],
)
def test_anything_else_is_rejected(message, reason):
    with pytest.raises(MalformedBatch, match=reason):
        unpack(message, ARRAYS)


def test_replicas_have_different_addresses():
    nodes = (
        Node("10.0.0.1", tuple(map(str, range(1000, 1010))), ("cpu:0", "cpu:1")),
        Node("10.0.0.2", tuple(map(str, range(2000, 2010))), ("cpu:0", "cpu:1")),
    )
    cluster = Cluster(nodes, "cpu", "all_reduce")
    places = [(0, 0), (0, 1), (1, 2), (1, 3)]
    assert [address_of(Case("zmq-tcp"), cluster, node, replica) for node, replica in places] == [
        "tcp://127.0.0.1:1008",
        "tcp://127.0.0.1:1009",
        "tcp://127.0.0.1:2008",
        "tcp://127.0.0.1:2009",
    ]
    assert len({address_of(Case("zmq"), cluster, node, replica) for node, replica in places}) == 4
    with pytest.raises(Unsupported):
        address_of(Case("images"), cluster, 0, 0)
