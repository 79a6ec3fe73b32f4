"""The agent: one process per node that starts, watches and ends that node's workers.

Its main thread serves the coordinator's orders. Two more threads do nothing but wait: for orders, and for the end of
standard input (the tether). On node 0 the coordinator runs beside it, and is spoken to over loopback like from
anywhere else.
"""

import json
import os
import queue
import select
import shutil
import signal
import sys
import threading
import time
from dataclasses import replace
from typing import Any, Callable, Dict, List, Optional, Tuple

from dlperf_sdk.worker import devices, hardware, lifetime, link, network, preflight, rendezvous
from dlperf_sdk.worker.attempt import Attempt
from dlperf_sdk.worker.bundled import has, member, unpacked
from dlperf_sdk.worker.coordinator import PARITY, Coordinator
from dlperf_sdk.worker.failures import SETTLE, failure
from dlperf_sdk.worker.main import cluster_from
from dlperf_sdk.worker.orders import Place, orders_for
from dlperf_sdk.worker.placement import placed
from dlperf_sdk.worker.request import Request
from dlperf_sdk.worker.sampling import Sampling
from dlperf_sdk.worker.scratch import scratch as scratch_directory
from dlperf_sdk.worker.variables import worker_environment

LOOK = 0.1
"""Seconds between two looks at the workers while they are measured; one that ends is seen at once."""
CLOSE_LOOK = 0.02
"""The same before the clock: the last worker to be ready is waited for by all."""
REPORT = 0.25
"""Seconds between two reports of a worker's steps."""
HEARTBEAT = 2.0
TETHER = 25.0
"""Seconds without anything on the tether after which the controller counts as lost; it writes every few seconds."""


class Agent:
    """One node's agent."""

    def __init__(
        self,
        request: Request,
        node: int,
        connection: link.Link,
        bundle: str,
        scratch: str,
        interface: Optional[str] = None,
        parity: Optional[Request] = None,
    ) -> None:
        self.request, self.parity, self.node, self._link = request, parity, node, connection
        self._bundle, self._scratch, self._interface = bundle, scratch, interface
        self._door: Optional[preflight.Doorbell] = None
        self._heard = time.monotonic()
        self._inbox: queue.SimpleQueue = queue.SimpleQueue()
        # Simple: a signal handler puts into it while the same thread may be taking, which a Queue's lock forbids.
        self._attempt: Optional[Attempt] = None
        self._sampling: Optional[Sampling] = None
        self._ready = False
        self._failures: List[Dict[str, Any]] = []
        """Of this attempt, those that have been told."""
        self._settled = 0.0
        """When no more is waited for, once one has failed: the cause may die after its consequence."""
        self._reported = ("", 0)
        self._reported_at = 0.0
        self._beat = 0.0

    def serve(self, tether: bool) -> int:
        """Until the coordinator says quit, or is gone, or the tether ends. Returns the exit code."""
        signal.signal(signal.SIGTERM, lambda *_: self._inbox.put({"do": "abandon"}))
        signal.signal(signal.SIGINT, lambda *_: self._inbox.put({"do": "abandon"}))
        signal.signal(signal.SIGCHLD, lambda *_: self._inbox.put({}))
        threading.Thread(target=self._listen, daemon=True).start()
        if tether:
            threading.Thread(target=self._hold_tether, daemon=True).start()
        self._say(self._hello())
        try:
            while True:
                try:
                    message = self._inbox.get(timeout=LOOK if self._ready else CLOSE_LOOK)
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
            if self._door is not None:
                self._door.close()

    def _listen(self) -> None:
        for message in self._link.messages():
            self._heard = time.monotonic()
            if message.get("do") != "beat":
                self._inbox.put(message)
        self._inbox.put({"do": "abandon"})

    def _hold_tether(self) -> None:
        while select.select([0], [], [], TETHER)[0] and os.read(0, 4096):
            pass
        self._inbox.put({"do": "abandon"})

    def _hello(self) -> Dict[str, Any]:
        """What this node is, and whether it is fit for the case."""
        hello: Dict[str, Any] = {
            "event": "hello",
            "facts": hardware.describe(),
            "address": self._link.address,
        }
        try:
            if self._interface:
                hello["address"] = network.address_of(self._interface)
            self._bundle = unpacked(self._bundle, self._scratch)
            unfit = preflight.unfit(self.request.command, self._scratch)
        except OSError as error:
            unfit = {"kind": "unavailable", "message": "cannot be prepared: %s" % error}
        address = hello["address"]
        hello["facts"]["network"] = {"address": address, "interface": network.interface_of(address)}
        if unfit is not None:
            return dict(hello, unfit=unfit)
        if not address.startswith(
            "127."
        ):  # on one machine there is nothing to differ, and no way to be barred
            self._door = preflight.Doorbell(address)
            hello["door"] = self._door.port
            variables = worker_environment(os.environ, self.request.variables, {})
            hello["versions"] = preflight.versions(self.request.command, variables)
        return dict(hello, time=time.time())

    def _say(self, message: Dict[str, Any]) -> None:
        self._beat = time.monotonic()
        self._link.send(dict(message, node=self.node))

    def _obey(self, order: str, message: Dict[str, Any]) -> None:
        if order == "reach":
            threading.Thread(target=self._reach, args=(message["doors"],), daemon=True).start()
        elif order == "prepare":
            # It may wait for busy devices, and the coordinator must go on hearing from this node.
            threading.Thread(target=lambda: self._say(self._prepare(message)), daemon=True).start()
        elif order == "start":
            self._start(message)
        elif order == "go" and self._attempt is not None:
            self._attempt.go()
        elif order == "end" and self._attempt is not None:
            self._end()

    def _reach(self, doors: Any) -> None:
        self._say({"event": "reached", "without": preflight.unreachable(doors)})

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
        self._failures = []
        self._attempt = Attempt(message["attempt"], self._scratch, self._program(message)[0].deadlines)
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

    def _program(self, message: Dict[str, Any]) -> Tuple[Request, str]:
        """What an attempt is to do, and where the bundle says so."""
        if message["attempt"] == PARITY and self.parity is not None:
            return self.parity, "parity.json"
        return self.request, "request.json"

    def _start_workers(self, message: Dict[str, Any]) -> None:
        cluster = cluster_from(message["cluster"])
        place = Place(self.node, message["host_index"], message["host_count"])
        request, file = self._program(message)
        processes, orders = orders_for(request, cluster, place, self._bundle, file)
        self._sampling = Sampling(request.samplers, cluster.nodes[self.node].devices, self.node)
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
        if now - self._heard > link.SILENCE:
            self._inbox.put({"do": "abandon"})
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
            self._say({"event": "ready", "trainers": len(attempt.trainers)})
        failures = attempt.failures()
        for one in failures:
            if one not in self._failures:
                self._say({"event": "failed", "failure": one})
        if failures and not self._failures:
            self._settled = now + SETTLE
        self._failures = failures
        if attempt.over() or (failures and now >= self._settled):
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


def _asked(bundle: str, file: str, python: Optional[str]) -> Request:
    """A request of the bundle, for this interpreter if one is named."""
    request = Request.from_dict(json.loads(member(bundle, file)))
    return request if python is None else replace(request, command=[python])


def main(
    node: str,
    hosts: str,
    interface: Optional[str],
    python: Optional[str],
    scratch: Optional[str],
    tether: bool,
) -> int:
    """Be the agent of a node; see the bundle's `agent --help`. Returns the exit code."""
    os.umask(0o077)
    lifetime.adopt_orphans()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # until it serves: leave no directory behind
    with scratch_directory(scratch) as directory:
        bundle = os.path.abspath(sys.argv[0])
        request = _asked(bundle, "request.json", python)
        parity = _asked(bundle, "parity.json", python) if has(bundle, "parity.json") else None
        secret = member(bundle, "secret")
        place = placed(node, hosts, os.environ)
        emit = _stream()
        candidates = rendezvous.ports(secret)
        here, leader = place.hosts[0], None
        if place.node == 0:
            here = network.address_towards(place.hosts[1] if len(place.hosts) > 1 else "127.0.0.1")
            listener = rendezvous.listen(here, candidates)
            leader = Coordinator(request, listener, secret, emit, parity)
            leader.start()
            emit({"event": "heartbeat"})
            candidates = [listener.getsockname()[1]]
        connection = rendezvous.meet(here, candidates, secret, request.deadlines["start"])
        code = Agent(request, place.node, connection, bundle, directory, interface, parity).serve(tether)
        if leader is not None and code == 0:
            leader.join()  # it has said quit, and has only its last words to write
        connection.close()
        return code
