"""The agent: one process per node that starts, watches and ends that node's workers.

Its main thread carries out the coordinator's orders; another thread only receives them. `joining` starts an agent.
"""

import os
import queue
import shutil
import signal
import threading
import time
from socket import gethostname
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from dlperf_sdk.worker import lifetime
from dlperf_sdk.worker.agent import address_table, link, node_check, preflight
from dlperf_sdk.worker.agent.attempt import Attempt
from dlperf_sdk.worker.agent.coordinator import PARITY
from dlperf_sdk.worker.agent.launch_commands import Place, orders_for
from dlperf_sdk.worker.agent.log_pieces import in_pieces
from dlperf_sdk.worker.agent.relay import Relay
from dlperf_sdk.worker.agent.sampling import Sampling
from dlperf_sdk.worker.agent.secret_values import replace_values, secret_values
from dlperf_sdk.worker.exhaustion import describe_exhaustion
from dlperf_sdk.worker.failures import SETTLE, failure
from dlperf_sdk.worker.request import Request

LOOK = 0.1
"""Seconds between two looks at the workers while they are measured. The agent notices at once when one ends."""
CLOSE_LOOK = 0.02
"""The same before the window: all workers wait for the last one to be ready."""
REPORT = 0.25
"""Seconds between two reports of a worker's steps, on up to `_FREQUENT_REPORTERS` nodes."""
_FREQUENT_REPORTERS = 64
"""Maximum number of nodes that report so often. More nodes report less often, so the rate of reports stays the same."""
HEARTBEAT = 2.0


class Agent:
    """One node's agent.

    Args:
        request: The case.
        node: The node's number.
        connection: The link to the coordinator or to a relay; or this node's own relay, if it has one.
        bundle: The bundle's file or directory.
        scratch: An existing directory for temporary files.
        interface: The network interface that the user named; None if none was named.
        parity: The parity run's request; None without such a run.
        ports: The ports that may be used; empty for any.
    """

    def __init__(
        self,
        request: Request,
        node: int,
        connection: Union[link.Link, Relay],
        bundle: str,
        scratch: str,
        interface: Optional[str] = None,
        parity: Optional[Request] = None,
        ports: Sequence[int] = (),
    ) -> None:
        self.request, self.parity, self.node, self._link = request, parity, node, connection
        self._bundle, self._scratch, self._interface, self._ports = bundle, scratch, interface, ports
        self._secrets = secret_values(request, os.environ)
        self._doorbell: Optional[preflight.Doorbell] = None
        self._last_message_at = time.monotonic()
        self._inbox: "queue.SimpleQueue[Dict[str, Any]]" = queue.SimpleQueue()
        # A SimpleQueue: a signal handler may put while the same thread is taking, where a Queue's lock would deadlock.
        self._table: Dict[str, Dict[str, Any]] = {}
        """The addresses of all nodes in the next attempt, if this node's processes need them."""
        self._attempt: Optional[Attempt] = None
        self._sampling: Optional[Sampling] = None
        self._ready = False
        self._failures: List[Dict[str, Any]] = []
        """Failures of this attempt that have been reported."""
        self._settled = 0.0
        """Time at which the wait for further failures ends, after the first one: the cause may be detected after
        its consequence."""
        self._reported = ("", 0)
        self._reported_at = 0.0
        self._report_interval = REPORT * max(1.0, request.nodes / _FREQUENT_REPORTERS)
        self._beat = 0.0

    def serve(self) -> int:
        """Execute the coordinator's orders until it sends `quit`; then end the workers that still run, and return.

        The method also ends the workers and returns if the connection to the coordinator is lost, or at a SIGTERM,
        SIGHUP or SIGINT. It replaces the process's handlers of these signals and of SIGCHLD.

        Returns:
            The exit code: 0 after `quit`, else 1.
        """
        lifetime.handle_termination(lambda *_: self._inbox.put({"do": "abandon"}))
        signal.signal(signal.SIGINT, lambda *_: self._inbox.put({"do": "abandon"}))
        signal.signal(signal.SIGCHLD, lambda *_: self._inbox.put({}))
        try:
            threading.Thread(target=self._listen, daemon=True).start()
        except (RuntimeError, MemoryError) as error:
            self._report_exhaustion(error)
            return 0 if any(message.get("do") == "quit" for message in self._link.messages()) else 1
        try:
            self._inbox.put({"do": "introduce"})
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
                try:
                    if order:
                        self._execute(order, message)
                    self._watch()
                except (RuntimeError, MemoryError) as error:
                    self._report_exhaustion(error)
        finally:
            if self._attempt is not None:
                self._attempt.end()
            if self._doorbell is not None:
                self._doorbell.close()

    def _report_exhaustion(self, error: Exception) -> None:
        """Report to the coordinator that a resource of this node ran out. Any other error is raised again."""
        shortage = describe_exhaustion(error, "The agent of node %d (%s)" % (self.node, gethostname()))
        if shortage is None:
            raise error
        self._send({"event": "exhausted", "failure": failure("unavailable", shortage, None, self.node)})

    def _listen(self) -> None:
        try:
            for message in self._link.messages():
                self._last_message_at = time.monotonic()
                if message.get("do") != "beat":
                    self._inbox.put(message)
        finally:
            self._inbox.put({"do": "abandon"})

    def _introduce(self) -> None:
        """Send the facts of this node, or the reason why it cannot run the case."""
        address = self._link.address
        hello, self._bundle, self._doorbell = node_check.introduce(
            self.request, self._bundle, self._scratch, address, self._interface, self._ports
        )
        self._last_message_at = time.monotonic()  # nothing is sent to a node before its `hello`
        self._send(hello)

    def _send(self, message: Dict[str, Any]) -> None:
        self._beat = time.monotonic()
        self._link.send(replace_values(dict(message, node=self.node), self._secrets.items()))

    def _execute(self, order: str, message: Dict[str, Any]) -> None:
        if order == "introduce":
            self._introduce()
        elif order == "reach":
            threading.Thread(target=self._reach, args=(message["doorbells"],), daemon=True).start()
        elif order == "prepare":
            # It may wait for busy devices, and heartbeats must go on meanwhile.
            threading.Thread(target=self._prepare, args=(message,), daemon=True).start()
        elif order == "lay-out":
            self._table = address_table.expand(message["table"])
        elif order == "start":
            self._start(message)
        elif order == "go" and self._attempt is not None:
            self._attempt.release()
        elif order == "end" and self._attempt is not None:
            self._end()

    def _reach(self, doorbells: Any) -> None:
        self._send({"event": "reached", "unreached": preflight.unreachable(doorbells)})

    def _prepare(self, message: Dict[str, Any]) -> None:
        request = self._program(message)[0]
        self._send(node_check.choose_resources(request, self.node, message, self._ports))

    def _start(self, message: Dict[str, Any]) -> None:
        """Start this node's workers. What a plugin's functions raise here is the case's failure, not the agent's."""
        self._ready = False
        self._failures = []
        request = self._program(message)[0]
        number = message["attempt"]
        attempt = Attempt(number, self._scratch, request.deadlines, request.memory_limit, self._secrets)
        self._attempt = attempt
        try:
            self._start_workers(message, attempt)
        except Exception as error:
            self._send({"event": "failed", "failure": self._not_started(error)})
            self._end()
            return
        for worker in attempt.workers:
            self._send(
                {
                    "event": "worker-started",
                    "attempt": message["attempt"],
                    "name": worker.name,
                    "pid": worker.popen.pid,
                }
            )

    def _program(self, message: Dict[str, Any]) -> Tuple[Request, str]:
        """Return the request of an attempt and the name of its file in the bundle."""
        if message["attempt"] == PARITY and self.parity is not None:
            return self.parity, "parity.json"
        return self.request, "request.json"

    def _start_workers(self, message: Dict[str, Any], attempt: Attempt) -> None:
        if not os.path.exists(self._bundle):
            raise FileNotFoundError(self._bundle)
        nodes, self._table = dict(self._table, **message["nodes"]), {}
        place = Place(self.node, message["host_index"], message["host_count"])
        request, file = self._program(message)
        processes, orders = orders_for(request, nodes, place, self._bundle, file)
        devices = nodes[str(self.node)]["devices"]
        self._sampling = Sampling(request.samplers, devices, self.node)
        attempt.start(nodes, processes, orders)

    def _failures_of(self, attempt: Attempt) -> List[Dict[str, Any]]:
        """Return the failures of an attempt; without the node's folder they have that one cause."""
        failures = attempt.failures()
        return [self._removed()] if failures and not os.path.exists(self._bundle) else failures

    def _removed(self) -> Dict[str, Any]:
        text = (
            "The folder %s for temporary files of node %d was removed during the run. Set TMPDIR to a folder that "
            "nothing cleans up."
        )
        return failure("unavailable", text % (self._scratch, self.node), None, self.node)

    def _not_started(self, error: Exception) -> Dict[str, Any]:
        # Every bundle has all modules of dlperf_sdk: one that is missing is just being removed.
        is_incomplete = isinstance(error, ImportError) and str(error.name).startswith("dlperf_sdk.")
        if is_incomplete or not os.path.exists(self._bundle):
            return self._removed()
        if isinstance(error, OSError):
            message = "A worker could not be started on node %d with %s: %s" % (
                self.node,
                self.request.command,
                error,
            )
            return failure("environment", message, "start", self.node)
        message = "The workers of node %d could not be laid out: %s: %s" % (
            self.node,
            type(error).__name__,
            error,
        )
        return failure("crashed", message, "start", self.node)

    def _watch(self) -> None:
        """Look at the workers, and report what has changed."""
        attempt, now = self._attempt, time.monotonic()
        if now - self._beat > HEARTBEAT:
            self._send({"event": "heartbeat"})
        if now - self._last_message_at > link.SILENCE:
            self._inbox.put({"do": "abandon"})
        if attempt is None:
            return
        attempt.check()
        if self._sampling is not None:
            self._sampling.sample_if_due(now)
        trainers = attempt.trainers
        if (
            trainers
            and trainers[0].last_progress != self._reported
            and now - self._reported_at >= self._report_interval
        ):
            self._reported, self._reported_at = trainers[0].last_progress, now
            phase, step = self._reported
            self._send(
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
            self._send({"event": "ready", "trainers": len(attempt.trainers)})
        failures = self._failures_of(attempt)
        for problem in failures:
            if problem not in self._failures:
                self._send({"event": "failed", "failure": problem})
        if failures and not self._failures:
            self._settled = now + SETTLE
        self._failures = failures
        # A record may be missing because the node's folder is being removed: that shows a moment later.
        is_uncertain = any(problem["kind"] == "invalid-record" for problem in failures)
        if (attempt.is_over() and not is_uncertain) or (failures and now >= self._settled):
            self._end()

    def _end(self) -> None:
        """End the attempt, and hand over everything that is left of it."""
        attempt, self._attempt = self._attempt, None
        sampling, self._sampling = self._sampling, None
        if attempt is None:
            return
        ended_early = not attempt.is_over()
        attempt.end()
        logs = [
            {"event": "log", "attempt": attempt.number, "name": worker.name, "text": piece}
            for worker in attempt.workers
            for piece in in_pieces(worker.log())
        ]
        self._send(
            {
                "event": "ended",
                "attempt": attempt.number,
                "failures": [] if ended_early else self._failures_of(attempt),
                "records": [
                    record
                    for record in (worker.record() for worker in attempt.trainers)
                    if record is not None
                ],
                "exits": [worker.exit() for worker in attempt.workers],
                "series": sampling.close() if sampling is not None else [],
                "logs": len(logs),
            }
        )
        for log in logs:
            self._send(log)
        for worker in attempt.workers:
            worker.progress.close()
            shutil.rmtree(worker.directory, ignore_errors=True)
