"""The agent: one process per node that starts, watches and ends that node's workers.

Its main thread serves the coordinator's orders. Two more threads do nothing but wait: for orders, and for the end of
standard input (the tether). On node 0 the coordinator runs beside it, and is spoken to over loopback like from
anywhere else.
"""

import json
import os
import queue
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import zipfile
from typing import Any, Callable, Dict, Optional

from dlperf_sdk.worker import devices, hardware, lifetime, link, network
from dlperf_sdk.worker.attempt import Attempt
from dlperf_sdk.worker.coordinator import Coordinator
from dlperf_sdk.worker.failures import failure
from dlperf_sdk.worker.main import cluster_from
from dlperf_sdk.worker.orders import Place, orders_for
from dlperf_sdk.worker.request import Request
from dlperf_sdk.worker.sampling import Sampling

LOOK = 0.1
"""Seconds between two looks at the workers."""
REPORT = 0.25
"""Seconds between two reports of a worker's steps."""
HEARTBEAT = 2.0


class Agent:
    """One node's agent."""

    def __init__(self, request: Request, node: int, connection: link.Link, bundle: str, scratch: str) -> None:
        self.request, self.node, self._link = request, node, connection
        self._bundle, self._scratch = bundle, scratch
        self._inbox: queue.SimpleQueue = queue.SimpleQueue()
        # Simple: a signal handler puts into it while the same thread may be taking, which a Queue's lock forbids.
        self._attempt: Optional[Attempt] = None
        self._sampling: Optional[Sampling] = None
        self._ready = False
        self._reported = ("", 0)
        self._reported_at = 0.0
        self._beat = 0.0

    def serve(self, tether: bool) -> int:
        """Until the coordinator says quit, or is gone, or the tether ends. Returns the exit code."""
        signal.signal(signal.SIGTERM, lambda *_: self._inbox.put({"do": "abandon"}))
        signal.signal(signal.SIGINT, lambda *_: self._inbox.put({"do": "abandon"}))
        threading.Thread(target=self._listen, daemon=True).start()
        if tether:
            threading.Thread(target=self._hold_tether, daemon=True).start()
        self._say({"event": "hello", "facts": hardware.describe(), "address": self._link.address})
        try:
            while True:
                try:
                    message = self._inbox.get(timeout=LOOK)
                except queue.Empty:
                    message = {}
                order = message.get("do")
                if order == "quit":
                    return 0
                if order == "abandon":
                    return 1
                if order:
                    self._obey(order, message)
                self._watch()
        finally:
            if self._attempt is not None:
                self._attempt.end()

    def _listen(self) -> None:
        for message in self._link.messages():
            self._inbox.put(message)
        self._inbox.put({"do": "abandon"})

    def _hold_tether(self) -> None:
        while os.read(0, 4096):
            pass
        self._inbox.put({"do": "abandon"})

    def _say(self, message: Dict[str, Any]) -> None:
        self._beat = time.monotonic()
        self._link.send(dict(message, node=self.node))

    def _obey(self, order: str, message: Dict[str, Any]) -> None:
        if order == "prepare":
            # It may wait for busy devices, and the coordinator must go on hearing from this node.
            threading.Thread(target=lambda: self._say(self._prepare(message)), daemon=True).start()
        elif order == "start":
            self._start(message)
        elif order == "go" and self._attempt is not None:
            self._attempt.go()
        elif order == "end" and self._attempt is not None:
            self._end()

    def _prepare(self, message: Dict[str, Any]) -> Dict[str, Any]:
        """Choose devices and ports for the next attempt."""
        try:
            return self._chosen(message)
        except Exception as error:
            why = "%s: %s" % (type(error).__name__, error)
            said = "Node %d cannot choose its devices and ports: %s" % (self.node, why)
            return {"event": "unprepared", "message": said}

    def _chosen(self, message: Dict[str, Any]) -> Dict[str, Any]:
        count = self.request.devices_per_node
        chosen = devices.choose(
            self.request.device,
            count,
            message["host_index"],
            message["host_count"],
            self.request.on_busy,
            self.request.deadlines["start"],
        )
        if isinstance(chosen, str):
            return {"event": "unprepared", "message": chosen}
        ports = network.free_ports(message["address"], 2 * count + 4)
        return {
            "event": "prepared",
            "devices": list(chosen.devices),
            "notes": list(chosen.notes),
            "ports": ports,
            "interface": network.interface_of(message["address"]),
        }

    def _start(self, message: Dict[str, Any]) -> None:
        """Start this node's workers. What a plugin's functions raise here is the case's failure, not the agent's."""
        self._ready = False
        self._attempt = Attempt(message["attempt"], self._scratch, self.request.deadlines)
        try:
            self._start_workers(message)
        except Exception as error:
            self._say({"event": "failed", "failure": self._not_started(error)})
            self._end()
            return
        for worker in self._attempt.workers:
            self._say(
                {
                    "event": "worker-started",
                    "attempt": message["attempt"],
                    "name": worker.name,
                    "pid": worker.popen.pid,
                }
            )

    def _start_workers(self, message: Dict[str, Any]) -> None:
        cluster = cluster_from(message["cluster"])
        place = Place(self.node, message["host_index"], message["host_count"])
        processes, orders = orders_for(self.request, cluster, place, self._bundle)
        self._sampling = Sampling(self.request.samplers, cluster.nodes[self.node].devices, self.node)
        self._attempt.start(cluster, processes, orders)

    def _not_started(self, error: Exception) -> Dict[str, Any]:
        if isinstance(error, OSError):
            said = "A worker could not be started on node %d with %s: %s" % (
                self.node,
                self.request.command,
                error,
            )
            return failure("environment", said, "start", self.node)
        said = "The workers of node %d could not be laid out: %s: %s" % (
            self.node,
            type(error).__name__,
            error,
        )
        return failure("crashed", said, "start", self.node)

    def _watch(self) -> None:
        """Look at the workers, tell what is new."""
        attempt, now = self._attempt, time.monotonic()
        if now - self._beat > HEARTBEAT:
            self._say({"event": "heartbeat"})
        if attempt is None:
            return
        attempt.check()
        if self._sampling is not None:
            self._sampling.look(now)
        trainers = attempt.trainers
        if trainers and trainers[0].seen != self._reported and now - self._reported_at >= REPORT:
            self._reported, self._reported_at = trainers[0].seen, now
            phase, step = self._reported
            self._say(
                {
                    "event": "progress",
                    "attempt": attempt.number,
                    "rank": trainers[0].process.rank,
                    "phase": phase,
                    "step": step,
                }
            )
        if not self._ready and attempt.ready():
            self._ready = True
            self._say({"event": "ready"})
        failures = attempt.failures()
        if failures:
            for one in failures:
                self._say({"event": "failed", "failure": one})
            self._end()
        elif attempt.over():
            self._end()

    def _end(self) -> None:
        """End the attempt, and hand over everything that is left of it."""
        attempt, self._attempt = self._attempt, None
        sampling, self._sampling = self._sampling, None
        if attempt is None:
            return
        ended_early = not attempt.over()
        attempt.end()
        self._say(
            {
                "event": "ended",
                "attempt": attempt.number,
                "failures": [] if ended_early else attempt.failures(),
                "records": [
                    record
                    for record in (worker.record() for worker in attempt.trainers)
                    if record is not None
                ],
                "exits": [worker.exit() for worker in attempt.workers],
                "series": sampling.close() if sampling is not None else [],
                "logs": [{"name": worker.name, "text": worker.log()} for worker in attempt.workers],
            }
        )
        for worker in attempt.workers:
            worker.progress.close()
            shutil.rmtree(worker.directory, ignore_errors=True)


def _unpacked(scratch: str) -> str:
    """The directory that workers import from: this bundle, unpacked."""
    bundle = os.path.abspath(sys.argv[0])
    if os.path.isdir(bundle):
        return bundle
    directory = os.path.join(scratch, "bundle")
    with zipfile.ZipFile(bundle) as archive:
        archive.extractall(directory)
    return directory


def _stream() -> Callable[[Dict[str, Any]], None]:
    """Agent 0's stream on standard output, which from here on is ours alone: what others print goes to the log."""
    stream = os.dup(1)
    os.dup2(2, 1)

    def emit(message: Dict[str, Any]) -> None:
        data = json.dumps(message, allow_nan=False).encode() + b"\n"
        try:
            while data:
                data = data[os.write(stream, data) :]
        except OSError:
            pass  # nobody listens any more; the tether tells

    return emit


def main(node: int, coordinator: str, tether: bool) -> int:
    os.umask(0o077)
    lifetime.adopt_orphans()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # until it serves: leave no directory behind
    scratch = tempfile.mkdtemp(prefix="dlperf-")
    try:
        bundle = _unpacked(scratch)
        request = Request.load(os.path.join(bundle, "request.json"))
        with open(os.path.join(bundle, "secret"), encoding="ascii") as file:
            secret = file.read()
        host, _, port = coordinator.rpartition(":")
        address = (host, int(port))
        if node == 0:
            listener = _listen_on(address)
            address = listener.getsockname()[:2]
            emit = _stream()
            emit({"event": "listening", "host": address[0], "port": address[1]})
            leader = Coordinator(request, listener, secret, emit)
            leader.start()
        connection = link.connect(address, secret, request.deadlines["start"])
        code = Agent(request, node, connection, bundle, scratch).serve(tether)
        if node == 0 and code == 0:
            leader.join()  # it has said quit, and has only its last words to write
        connection.close()
        return code
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _listen_on(address: Any) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(address)
    listener.listen(1024)
    return listener
