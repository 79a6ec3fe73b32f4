"""The coordinator, which runs on node 0: it leads all nodes through the repeats, and reports to the controller.

What it emits is the stream that every launcher brings back, one JSON object a line. In order these are
`agents-ready`; `note`, where there is one; `parity-ended`, if the bundle has a parity run; then per attempt
`attempt-started`, `worker-started`, `progress`, `attempt-ended`, `log` (a piece of a worker's log); and at last
`ended`. Between them there are `heartbeat` events.
"""

import socket
import threading
import time
import traceback
from typing import Any, Callable, Dict, Iterator, List, Optional

from dlperf_sdk.worker import estimate
from dlperf_sdk.worker.agent import address_table
from dlperf_sdk.worker.agent.link import SILENCE
from dlperf_sdk.worker.agent.log_pieces import tail_of
from dlperf_sdk.worker.agent.preflight import select_doorbells
from dlperf_sdk.worker.agent.roster import Roster
from dlperf_sdk.worker.agent.stopping import decide
from dlperf_sdk.worker.agent.tree import FAN_OUT, Tree
from dlperf_sdk.worker.dates import now
from dlperf_sdk.worker.exhaustion import describe_exhaustion
from dlperf_sdk.worker.failures import SETTLE, Failed, failure, select_cause
from dlperf_sdk.worker.request import Request

PARITY = 0
"""The number of the parity run among the attempts; measured attempts are counted from 1."""
_ITS_OWN = ("crashed", "timeout", "invalid-record")
"""Kinds of failure of a parity run that concern it alone: the measured attempts may still succeed."""
_PROCESSES_PER_DEVICE = 8
"""Maximum number of processes per device of a node, its services included."""
_SERVICES = 64
"""Maximum number of further processes of a node."""
BEAT = 2.0
"""Seconds between two heartbeats to the controller, which takes fifteen seconds without one for a loss."""


class Coordinator(threading.Thread):
    """The thread that runs a case: it sends orders to all nodes, and collects their records.

    Args:
        request: The case.
        listener: The socket at which agents connect.
        secret: The bundle's secret.
        emit: Called with each event for the controller, from this thread.
        parity: The parity run's request; None without such a run.
        fan_out: Maximum number of nodes whose agents connect to one other node.
    """

    def __init__(
        self,
        request: Request,
        listener: socket.socket,
        secret: str,
        emit: Callable[[Dict[str, Any]], None],
        parity: Optional[Request] = None,
        fan_out: int = FAN_OUT,
    ) -> None:
        super().__init__(daemon=True)
        self.request, self.parity, self._emit = request, parity, emit
        self._emitted = 0.0
        self._logs: List[Dict[str, Any]] = []
        """Pieces of logs of this attempt that have not been forwarded."""
        self._outstanding: Dict[int, int] = {}
        """Number of a node that has handed in its part → pieces of its logs that have not arrived."""
        self._expected_logs = 0
        """The sum of these pieces."""
        self.port: int = listener.getsockname()[1]
        most_processes = _PROCESSES_PER_DEVICE * request.devices_per_node + _SERVICES
        self._roster = Roster(Tree(request.nodes, fan_out), most_processes, listener, secret, self._beat)

    def run(self) -> None:
        """Run the case to its end: gather the nodes, run the attempts, emit every event, and send `quit` to the nodes.

        The last event is `ended`. Its `failure` is the failure of the case, or None if the case succeeded.
        """
        try:
            self._roster.gather(self.request.deadlines["start"])
            self._reach()
            self._send({"event": "agents-ready", "nodes": self._roster.facts()})
            for node, text in self._roster.notes():
                self._send({"event": "note", "node": node, "text": text})
            if self.parity is not None and self.request.program == "measure":
                self._follow_reference()
            self._repeat()
        except Failed as failed:
            self._fail(failed.failure)
        except Exception as error:
            # An unexpected error must not leave the agents waiting.
            shortage = describe_exhaustion(error, "The coordinator on node 0")
            if shortage is not None:
                self._fail(failure("unavailable", shortage, None, 0))
            else:
                message_text = "The coordinator could not make sense of what a node sent: %r" % error
                self._fail(dict(failure("invalid-record", message_text), traceback=traceback.format_exc()))
        finally:
            self._roster.close()

    def _send(self, message: Dict[str, Any]) -> None:
        self._emitted = time.monotonic()
        self._emit(message)

    def _beat(self) -> None:
        """Send a heartbeat to the controller; called while waiting."""
        if time.monotonic() - self._emitted > BEAT:
            self._send({"event": "heartbeat"})

    def _end(self, status: str, failed: Optional[Dict[str, Any]]) -> None:
        self._send({"event": "ended", "time": now(), "status": status, "failure": failed})

    def _fail(self, failed: Dict[str, Any]) -> None:
        self._end(failed["kind"], failed)

    def _follow_reference(self) -> None:
        """Follow the parity run. A failure that would stop the case as well ends it."""
        ended = self._attempt(PARITY)
        logs = list(self._receive_logs())
        if ended["failure"] is not None:
            ended["logs"] = tail_of(logs, "rank-%s" % ended["failure"]["rank"])
        self._send(dict(ended, event="parity-ended"))
        if ended["failure"] is not None and ended["failure"]["kind"] not in _ITS_OWN:
            raise Failed(ended["failure"])

    def _repeat(self) -> None:
        throughputs: List[float] = []
        while True:
            attempt = self.request.first_attempt + len(throughputs)
            self._send({"event": "attempt-started", "attempt": attempt})
            ended = self._attempt(attempt)
            self._send(ended)  # before the logs: a failure while these arrive must not lose a finished repeat
            for log in self._receive_logs():
                self._send(log)
            if ended["failure"] is not None:
                raise Failed(ended["failure"])
            if self.request.program != "measure":
                self._end("ok", None)
                return
            windows = [record["window"] for record in ended["records"]]
            throughputs.append(
                estimate.throughput(
                    [record["samples"] for record in ended["records"]],
                    [window["end"] - window["start"] for window in windows],
                )
            )
            if decide(throughputs, self.request.protocol).stop:
                self._end("ok", None)
                return

    def _attempt(self, attempt: int) -> Dict[str, Any]:
        """Prepare, start, barrier, go, collect. The value is the event `attempt-ended`."""
        failures: List[Dict[str, Any]] = []
        parts: List[Dict[str, Any]] = []
        started = False
        self._logs, self._outstanding, self._expected_logs = [], {}, 0
        try:
            prepared = self._prepare(attempt)
            started = True
            self._start(attempt, prepared)
            self._follow(attempt, failures, parts)
        except Failed as failed:
            failures.append(failed.failure)
            if started:
                self._roster.order({"do": "end"})
                self._collect(parts, failures)
        outcome = {
            key: [item for part in parts for item in part[key]] for key in ("records", "exits", "series")
        }
        failures += [failure for part in parts for failure in part["failures"]]
        cause = select_cause(failures) if failures else None
        outcome["records"].sort(key=lambda record: record.get("rank", 0))
        status = cause["kind"] if cause else "ok"
        return dict(outcome, event="attempt-ended", attempt=attempt, status=status, failure=cause)

    def _reach(self) -> None:
        """Let every node try whether it can reach others, as workers will have to."""
        doorbells = self._roster.doorbells()
        if not doorbells:
            return
        self._roster.order_each(
            lambda node, _: {"do": "reach", "doorbells": select_doorbells(node, doorbells)}
        )
        answered = 0
        while answered < self.request.nodes:
            message = self._roster.next(self.request.deadlines["start"])
            if message is None:
                raise Failed(
                    failure("unavailable", "A node did not try to reach the others in time.", "start")
                )
            if message["event"] != "reached":
                continue
            answered += 1
            if message["unreached"]:
                node, unreached = message["node"], message["unreached"]
                names = ", ".join(self._roster.name(number) for number in unreached)
                message_text = (
                    "%s cannot connect to %s. Open the ports between the nodes, or choose another network "
                    "with the topology's option 'interface'."
                )
                raise Failed(
                    failure("unavailable", message_text % (self._roster.name(node), names), "start", node)
                )

    def _prepare(self, attempt: int) -> Dict[int, Dict[str, Any]]:
        """Have every node choose its devices and ports."""
        self._roster.order_each(lambda _, place: dict(place, do="prepare", attempt=attempt))
        prepared: Dict[int, Dict[str, Any]] = {}
        while len(prepared) < self.request.nodes:
            message = self._roster.next(self.request.deadlines["start"] + SILENCE)
            if message is None:
                raise Failed(failure("unavailable", "A node did not choose its devices in time.", "start"))
            if message["event"] == "unprepared":
                raise Failed(failure("unavailable", message["message"], "start", message["node"]))
            if message["event"] == "prepared":
                prepared[message["node"]] = message
                for note in message["notes"]:
                    self._send({"event": "note", "node": message["node"], "text": note})
        return prepared

    def _start(self, attempt: int, prepared: Dict[int, Dict[str, Any]]) -> None:
        """Order the nodes to start their workers, and send to each only the nodes that its processes need."""
        nodes = {
            str(node): dict(
                {key: prepared[node][key] for key in ("ports", "devices", "interface")}, host=address
            )
            for node, address in self._roster.addresses()
        }
        machines: Dict[str, Dict[str, Dict[str, Any]]] = {}
        for number, facts in nodes.items():
            machines.setdefault(facts["host"], {"0": nodes["0"]})[number] = facts
        needing = [node for node, answer in prepared.items() if answer["needs_table"]]
        if needing:
            table = address_table.compress(list(nodes.values()))
            self._roster.order({"do": "lay-out", "table": table}, needing)

        def start(node: int, place: Dict[str, Any]) -> Dict[str, Any]:
            # A trainer on node 0 may record replicas of other nodes, with their devices.
            known = machines[nodes[str(node)]["host"]] if node else nodes
            return dict(place, do="start", attempt=attempt, nodes=known)

        self._roster.order_each(start)

    def _follow(self, attempt: int, failures: List[Dict[str, Any]], parts: List[Dict[str, Any]]) -> None:
        """Wait until every node has handed in its part. When all are ready, start them; if one fails, end the others.

        A node without trainers serves the others, and is ended when they have handed in theirs.
        """
        ready = set()
        serving = 0
        go_sent = False
        settle: Optional[float] = None
        while len(parts) < self.request.nodes:
            timeout = 1.0 if settle is None else max(0.0, settle - time.monotonic())
            message = self._roster.next(timeout) or {"event": "silence", "node": None}
            event = message["event"]
            if event in ("worker-started", "progress"):
                if attempt != PARITY:
                    self._send(message)
            elif event == "ready":
                ready.add(message["node"])
                serving += not message["trainers"]
                if len(ready) == self.request.nodes and not go_sent:
                    go_sent = True
                    self._roster.order({"do": "go"})
            elif event == "failed":
                failures.append(message["failure"])
                settle = settle or time.monotonic() + SETTLE
            else:
                self._take_part(message, parts)
            served = bool(serving) and len(parts) == self.request.nodes - serving
            if served or (settle is not None and time.monotonic() >= settle):
                self._roster.order({"do": "end"})
                self._collect(parts, failures)
                return

    def _collect(self, parts: List[Dict[str, Any]], failures: List[Dict[str, Any]]) -> None:
        """Collect the parts of all connected nodes for up to `SILENCE` seconds after the order to end."""
        end = time.monotonic() + SILENCE
        while self._roster.connected_nodes() - {part["node"] for part in parts} and time.monotonic() < end:
            try:
                message = self._roster.next(end - time.monotonic())
            except Failed as failed:
                failures.append(failed.failure)
                continue
            if message is not None:
                self._take_part(message, parts)

    def _take_part(self, message: Dict[str, Any], parts: List[Dict[str, Any]]) -> None:
        """Take what a node hands in at the end of an attempt: one part, then as many pieces of logs as the part says.

        More of them are dropped.
        """
        node = message["node"]
        if message["event"] == "ended" and node not in self._outstanding:
            parts.append(message)
            self._outstanding[node] = message["logs"]
            self._expected_logs += message["logs"]
        elif message["event"] == "log" and self._outstanding.get(node, 0) > 0:
            self._outstanding[node] -= 1
            self._expected_logs -= 1
            self._logs.append(message)

    def _receive_logs(self) -> Iterator[Dict[str, Any]]:
        """Yield the pieces of the logs of the attempt that is over, until all have come or none comes any more.

        Raises:
            Failed: A node is lost.
        """
        while self._logs or self._expected_logs:
            while not self._logs:
                message = self._roster.next(SILENCE)
                if message is None:
                    return
                self._take_part(message, [])
            yield self._logs.pop(0)
