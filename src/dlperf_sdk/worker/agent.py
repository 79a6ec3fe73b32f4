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
from dlperf_sdk.worker.affinity import core_count, cpus_by_numa, share, thread_variables
from dlperf_sdk.worker.attempt import Attempt
from dlperf_sdk.worker.coordinator import Coordinator
from dlperf_sdk.worker.main import cluster_from
from dlperf_sdk.worker.processes import names_of
from dlperf_sdk.worker.request import Request, resolve
from dlperf_sdk.worker.sampling import Sampling
from dlperf_sdk.worker.variables import worker_environment

LOOK = 0.1
"""Seconds between two looks at the workers."""
REPORT = 0.25
"""Seconds between two reports of a worker's steps."""
HEARTBEAT = 2.0


class Agent:
    """One node's agent."""

    def __init__(self, request, node, connection, bundle, scratch):
        # type: (Request, int, link.Link, str, str) -> None
        self.request, self.node, self._link = request, node, connection
        self._bundle, self._scratch = bundle, scratch
        self._inbox = queue.SimpleQueue()  # type: queue.SimpleQueue
        # Simple: a signal handler puts into it while the same thread may be taking, which a Queue's lock forbids.
        self._attempt = None  # type: Optional[Attempt]
        self._sampling = None  # type: Optional[Sampling]
        self._ready = False
        self._reported = ("", 0)
        self._reported_at = 0.0
        self._beat = 0.0

    def serve(self, tether):
        # type: (bool) -> int
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

    def _listen(self):
        # type: () -> None
        for message in self._link.messages():
            self._inbox.put(message)
        self._inbox.put({"do": "abandon"})

    def _hold_tether(self):
        # type: () -> None
        while os.read(0, 4096):
            pass
        self._inbox.put({"do": "abandon"})

    def _say(self, message):
        # type: (Dict[str, Any]) -> None
        self._beat = time.monotonic()
        self._link.send(dict(message, node=self.node))

    def _obey(self, order, message):
        # type: (str, Dict[str, Any]) -> None
        if order == "prepare":
            # It may wait for busy devices, and the coordinator must go on hearing from this node.
            threading.Thread(target=lambda: self._say(self._prepare(message)), daemon=True).start()
        elif order == "start":
            self._start(message)
        elif order == "go" and self._attempt is not None:
            self._attempt.go()
        elif order == "end" and self._attempt is not None:
            self._end()

    def _prepare(self, message):
        # type: (Dict[str, Any]) -> Dict[str, Any]
        """Choose devices and ports for the next attempt."""
        try:
            return self._chosen(message)
        except Exception as error:
            said = "Node %d cannot choose its devices and ports: %s: %s" % (self.node, type(error).__name__, error)
            return {"event": "unprepared", "message": said}

    def _chosen(self, message):
        # type: (Dict[str, Any]) -> Dict[str, Any]
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

    def _start(self, message):
        # type: (Dict[str, Any]) -> None
        """Start this node's workers. What a plugin's functions raise here is the case's failure, not the agent's."""
        self._ready = False
        self._attempt = Attempt(self.request, message["attempt"], self._scratch)
        try:
            self._start_workers(message)
        except Exception as error:
            self._say({"event": "failed", "failure": self._not_started(error)})
            self._end()
            return
        for worker in self._attempt.workers:
            self._say({"event": "worker-started", "attempt": message["attempt"], "name": worker.name, "pid": worker.popen.pid})

    def _start_workers(self, message):
        # type: (Dict[str, Any]) -> None
        cluster = cluster_from(message["cluster"])
        everyone = resolve(self.request.processes)(cluster)
        named = [(name, process) for name, process in zip(names_of(everyone), everyone) if process.node == self.node]
        mine = [process for _, process in named]
        trainers = [process for process in mine if process.devices]
        sharers = len(trainers) * message["host_count"]
        cores = cpus_by_numa()
        orders = []
        for name, process in named:
            cpus = ()  # type: Any
            if process.devices:
                cpus = share(cores, message["host_index"] * len(trainers) + trainers.index(process), sharers)
            threads = thread_variables(core_count(cpus)) if cpus else {}
            variables = dict(devices.visible(cluster.device, [cluster.nodes[self.node].devices[i] for i in process.devices]))
            variables.update(process.variables)
            orders.append(
                {
                    "name": name,
                    "command": list(self.request.command) + ["-I", "-u", self._bundle],
                    "environment": worker_environment(os.environ, dict(threads, **self.request.variables), variables),
                    "cpus": list(cpus),
                    "request": os.path.join(self._bundle, "request.json"),
                }
            )
        self._sampling = Sampling(self.request.samplers, cluster.nodes[self.node].devices, self.node)
        self._attempt.start(cluster, mine, orders)

    def _not_started(self, error):
        # type: (Exception) -> Dict[str, Any]
        if isinstance(error, OSError):
            kind, what = "environment", "A worker could not be started on node %d with %s" % (self.node, self.request.command)
        else:
            kind, what = "crashed", "The workers of node %d could not be laid out: %s" % (self.node, type(error).__name__)
        return {"kind": kind, "phase": "start", "node": self.node, "rank": None, "type": None, "message": "%s: %s" % (what, error)}

    def _watch(self):
        # type: () -> None
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
            self._say({"event": "progress", "attempt": attempt.number, "rank": trainers[0].process.rank, "phase": phase, "step": step})
        if not self._ready and attempt.ready():
            self._ready = True
            self._say({"event": "ready"})
        failures = attempt.failures()
        if failures:
            for failure in failures:
                self._say({"event": "failed", "failure": failure})
            self._end()
        elif attempt.over():
            self._end()

    def _end(self):
        # type: () -> None
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
                "records": [record for record in (worker.record() for worker in attempt.trainers) if record is not None],
                "exits": [worker.exit() for worker in attempt.workers],
                "series": sampling.close() if sampling is not None else [],
                "logs": [{"name": worker.name, "text": worker.log()} for worker in attempt.workers],
            }
        )
        for worker in attempt.workers:
            worker.progress.close()
            shutil.rmtree(worker.directory, ignore_errors=True)


def _unpacked(scratch):
    # type: (str) -> str
    """The directory that workers import from: this bundle, unpacked."""
    bundle = os.path.abspath(sys.argv[0])
    if os.path.isdir(bundle):
        return bundle
    directory = os.path.join(scratch, "bundle")
    with zipfile.ZipFile(bundle) as archive:
        archive.extractall(directory)
    return directory


def _stream():
    # type: () -> Callable[[Dict[str, Any]], None]
    """Agent 0's stream on standard output, which from here on is ours alone: what others print goes to the log."""
    stream = os.dup(1)
    os.dup2(2, 1)

    def emit(message):
        # type: (Dict[str, Any]) -> None
        data = json.dumps(message, allow_nan=False).encode() + b"\n"
        try:
            while data:
                data = data[os.write(stream, data) :]
        except OSError:
            pass  # nobody listens any more; the tether tells

    return emit


def main(node, coordinator, tether):
    # type: (int, str, bool) -> int
    os.umask(0o077)
    lifetime.adopt_orphans()
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


def _listen_on(address):
    # type: (Any) -> socket.socket
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(address)
    listener.listen(1024)
    return listener
