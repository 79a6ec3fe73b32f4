"""A sender beside strangers on the same node: they neither fill its memory nor keep batches from the trainer."""

from __future__ import annotations

import subprocess
import sys
import threading

import psutil
import pytest

zmq = pytest.importorskip("zmq")

BATCH_MIB = 8
SENDER = f"""
import numpy, zmq
from dlperf_sdk.worker import zmq_sender

with zmq.Context() as context, zmq_sender.open_socket(context, "tcp://127.0.0.1:*") as socket:
    print(socket.getsockopt_string(zmq.LAST_ENDPOINT), flush=True)
    zmq_sender.answer(socket, {{"x": numpy.zeros({BATCH_MIB} << 20, numpy.uint8)}})
"""


@pytest.fixture
def sender():
    """A sender of large batches: its process and its address."""
    process = subprocess.Popen([sys.executable, "-c", SENDER], stdout=subprocess.PIPE, text=True)
    try:
        yield psutil.Process(process.pid), process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def connect(context, address):
    socket = context.socket(zmq.DEALER)
    for option, value in ((zmq.LINGER, 0), (zmq.RCVHWM, 1), (zmq.RCVTIMEO, 60_000)):
        socket.setsockopt(option, value)
    socket.connect(address)
    return socket


def receive(socket, count):
    """Ask for batches one by one."""
    for _ in range(count):
        socket.send(b"nchw")
        assert len(socket.recv_multipart()) == 2


def test_a_receiver_that_stalls_takes_little_memory(sender):
    process, address = sender
    with (
        zmq.Context() as context,
        connect(context, address) as stranger,
        connect(context, address) as trainer,
    ):
        for _ in range(200):
            stranger.send(b"nchw")
        receive(trainer, 20)
        for _ in range(200):
            stranger.send(b"nchw")
        receive(trainer, 20)
        assert process.memory_info().rss < 60 * BATCH_MIB * 2**20


def test_a_flood_of_questions_does_not_keep_batches_from_the_trainer(sender):
    process, address = sender
    ended = threading.Event()

    def flood(context):
        with connect(context, address) as stranger:
            stranger.setsockopt(zmq.SNDTIMEO, 1000)
            while not ended.is_set():
                for question in (b"nchw", b"", b"x" * 1000):
                    try:
                        stranger.send(question)
                    except zmq.Again:
                        continue

    with zmq.Context() as context, connect(context, address) as trainer:
        thread = threading.Thread(target=flood, args=[context])
        thread.start()
        try:
            receive(trainer, 20)
            assert process.memory_info().rss < 60 * BATCH_MIB * 2**20
        finally:
            ended.set()
            thread.join()
