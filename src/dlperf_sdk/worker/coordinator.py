"""Agent 0's other half: it drives all nodes through the repeats, and tells the controller what happens.

What it emits is the stream that every engine brings back, one JSON object a line:
`agents-ready`, then per attempt `attempt-started`, `worker-started`, `progress`, `attempt-ended`; at last `ended`.
"""

import queue
import socket
import threading
import time
import traceback
from typing import Any, Callable, Dict, List, Optional

from dlperf_sdk.worker import estimate, link
from dlperf_sdk.worker.request import Request
from dlperf_sdk.worker.stopping import decide

SILENCE = 20.0
"""Seconds without a sign of life after which a node counts as lost; agents give one every two."""
SETTLE = 1.0
"""Seconds in which, after a first failure, others may tell theirs: the cause is not always the first to be heard."""
BEAT = 5.0

_CAUSES = ("out-of-memory", "unsupported", "unavailable", "environment", "timeout", "invalid-record", "crashed", "lost-node")
"""When several workers fail, the others mostly fail because of the first: the more telling kind is the cause."""


class Failed(Exception):
    """An attempt failed; the argument is its failure."""


def cause_of(failures):
    # type: (List[Dict[str, Any]]) -> Dict[str, Any]
    """The most telling failure: by kind, then deaths by a signal before exceptions, then in order of arrival."""
    return min(failures, key=lambda failure: (_CAUSES.index(failure["kind"]), failure.get("type") is not None))


class Coordinator(threading.Thread):
    """Barrier, heartbeat, repeats, records."""

    def __init__(self, request, listener, secret, emit):
        # type: (Request, socket.socket, str, Callable[[Dict[str, Any]], None]) -> None
        super().__init__(daemon=True)
        self.request, self._listener, self._secret, self._emit = request, listener, secret, emit
        self._inbox = queue.Queue()  # type: queue.Queue
        self._links = {}  # type: Dict[int, link.Link]
        self._heard = {}  # type: Dict[int, float]
        self._hellos = {}  # type: Dict[int, Dict[str, Any]]
        self._emitted = 0.0

    def run(self):
        # type: () -> None
        try:
            self._gather()
            self._tell({"event": "agents-ready", "nodes": [self._hellos[node]["facts"] for node in sorted(self._hellos)]})
            self._repeat()
        except Failed as failed:
            self._tell({"event": "ended", "status": failed.args[0]["kind"], "failure": failed.args[0], "stopping": None})
        except Exception as error:  # a record or a message that is not what it should be must not leave the agents waiting
            failure = {
                "kind": "invalid-record",
                "phase": None,
                "node": None,
                "rank": None,
                "type": type(error).__name__,
                "message": "The coordinator could not make sense of what a node sent: %r" % error,
                "traceback": traceback.format_exc(),
            }
            self._tell({"event": "ended", "status": failure["kind"], "failure": failure, "stopping": None})
        finally:
            self._order({"do": "quit"})

    def _tell(self, message):
        # type: (Dict[str, Any]) -> None
        self._emitted = time.monotonic()
        self._emit(message)

    def _order(self, message):
        # type: (Dict[str, Any]) -> None
        for connection in self._links.values():
            connection.send(message)

    # -- meeting the agents

    def _gather(self):
        # type: () -> None
        """Wait for a hello from every node."""
        threading.Thread(target=self._accept, daemon=True).start()
        deadline = time.monotonic() + self.request.deadlines["start"]
        while len(self._hellos) < self.request.nodes:
            message = self._next(deadline - time.monotonic())
            if message is None:
                missing = sorted(set(range(self.request.nodes)) - set(self._hellos))
                raise Failed(
                    {
                        "kind": "lost-node",
                        "phase": "start",
                        "node": missing[0],
                        "rank": None,
                        "message": "No word from the agents of nodes %s within %.0f s (the deadline 'start'). Check that they were "
                        "started and can reach %s:%d." % ((missing, self.request.deadlines["start"]) + self._listener.getsockname()[:2]),
                    }
                )
            if message["event"] == "hello":
                self._hellos[message["node"]] = message

    def _accept(self):
        # type: () -> None
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._receive, args=(connection,), daemon=True).start()

    def _receive(self, connection):
        # type: (socket.socket) -> None
        """One thread per agent: prove, then pass on what it says."""
        joined = link.accept(connection, self._secret, self.request.deadlines["start"])
        if joined is None:
            return
        node = None
        for message in joined.messages():
            node = message.get("node")
            if not isinstance(node, int) or not 0 <= node < self.request.nodes:
                break
            self._links.setdefault(node, joined)
            self._inbox.put(message)
        if node is not None:
            self._inbox.put({"event": "gone", "node": node})

    def _next(self, patience):
        # type: (float) -> Optional[Dict[str, Any]]
        """The next message, or None after `patience` seconds. A lost node raises."""
        end = time.monotonic() + patience
        while True:
            now = time.monotonic()
            if now - self._emitted > BEAT:
                self._tell({"event": "heartbeat"})
            for node, heard in list(self._heard.items()):
                if now - heard > SILENCE:
                    raise Failed(self._lost(node, "has not been heard for %.0f s" % SILENCE))
            try:
                message = self._inbox.get(timeout=max(0.0, min(1.0, end - now)))
            except queue.Empty:
                if now >= end:
                    return None
                continue
            if message["event"] == "gone":
                raise Failed(self._lost(message["node"], "has gone"))
            self._heard[message["node"]] = time.monotonic()
            if message["event"] != "heartbeat":
                return message

    def _lost(self, node, how):
        # type: (int, str) -> Dict[str, Any]
        self._heard.pop(node, None)
        self._links.pop(node, None)
        return {
            "kind": "lost-node",
            "phase": None,
            "node": node,
            "rank": None,
            "message": "The agent of node %d %s. The other nodes' workers were ended; finished repeats are kept." % (node, how),
        }

    # -- the repeats

    def _repeat(self):
        # type: () -> None
        throughputs = []  # type: List[float]
        while True:
            attempt = len(throughputs) + 1
            self._tell({"event": "attempt-started", "attempt": attempt})
            ended = self._attempt(attempt)
            self._tell(ended)
            if ended["failure"] is not None:
                raise Failed(ended["failure"])
            windows = [record["window"] for record in ended["records"]]
            throughputs.append(
                estimate.throughput(
                    [record["samples"] for record in ended["records"]],
                    [window["end"] - window["start"] for window in windows],
                )
            )
            decision = decide(throughputs, self.request.protocol)
            if decision.stop:
                rule = "fixed" if self.request.protocol["target"] is None else "adaptive"
                stopping = {"rule": rule, "met": decision.met, "detail": decision.detail}
                self._tell({"event": "ended", "status": "ok", "failure": None, "stopping": stopping})
                return

    def _attempt(self, attempt):
        # type: (int) -> Dict[str, Any]
        """Prepare, start, barrier, go, collect. The value is the event `attempt-ended`."""
        failures = []  # type: List[Dict[str, Any]]
        parts = []  # type: List[Dict[str, Any]]
        started = False
        try:
            prepared = self._prepare()
            started = True
            self._start(attempt, prepared)
            self._follow(attempt, failures, parts)
        except Failed as failed:
            failures.append(failed.args[0])
            if started:
                self._order({"do": "end"})
                self._collect(parts)
        everything = {key: [item for part in parts for item in part[key]] for key in ("records", "exits", "series", "logs")}
        failures += [failure for part in parts for failure in part["failures"]]
        failure = cause_of(failures) if failures else None
        everything["records"].sort(key=lambda record: record.get("rank", 0))
        status = failure["kind"] if failure else "ok"
        return dict(everything, event="attempt-ended", attempt=attempt, status=status, failure=failure)

    def _hosts(self):
        # type: () -> Dict[int, Any]
        """node → (its index among the nodes on the same machine, how many those are)."""
        machines = {}  # type: Dict[Any, List[int]]
        for node in sorted(self._hellos):
            machines.setdefault(self._hellos[node]["facts"].get("boot_id", node), []).append(node)
        return {node: (group.index(node), len(group)) for group in machines.values() for node in group}

    def _prepare(self):
        # type: () -> Dict[int, Dict[str, Any]]
        hosts = self._hosts()
        for node, connection in self._links.items():
            index, count = hosts[node]
            address = self._hellos[node]["address"]
            connection.send({"do": "prepare", "host_index": index, "host_count": count, "address": address})
        prepared = {}  # type: Dict[int, Dict[str, Any]]
        while len(prepared) < self.request.nodes:
            message = self._next(self.request.deadlines["start"] + SILENCE)
            if message is None or message["event"] == "unprepared":
                said = "A node did not choose its devices in time." if message is None else message["message"]
                node = None if message is None else message["node"]
                raise Failed({"kind": "unavailable", "phase": "start", "node": node, "rank": None, "message": said})
            if message["event"] == "prepared":
                prepared[message["node"]] = message
                for note in message["notes"]:
                    self._tell({"event": "note", "node": message["node"], "text": note})
        return prepared

    def _start(self, attempt, prepared):
        # type: (int, Dict[int, Dict[str, Any]]) -> None
        hosts = self._hosts()
        cluster = {
            "device": self.request.device,
            "strategy": self.request.strategy,
            "nodes": [
                {
                    "host": self._hellos[node]["address"],
                    "ports": prepared[node]["ports"],
                    "devices": prepared[node]["devices"],
                    "interface": prepared[node]["interface"],
                }
                for node in sorted(prepared)
            ],
        }
        for node, connection in self._links.items():
            index, count = hosts[node]
            connection.send({"do": "start", "attempt": attempt, "cluster": cluster, "host_index": index, "host_count": count})

    def _follow(self, attempt, failures, parts):
        # type: (int, List[Dict[str, Any]], List[Dict[str, Any]]) -> None
        """Until every node has handed in its part. All ready: go. One failed: end the others."""
        ready = set()
        gone = False
        settle = None  # type: Optional[float]
        while len(parts) < self.request.nodes:
            message = self._next(1.0 if settle is None else max(0.0, settle - time.monotonic()))
            if settle is not None and time.monotonic() >= settle:
                self._order({"do": "end"})
                self._collect(parts)
                return
            if message is None:
                continue
            event = message["event"]
            if event in ("worker-started", "progress"):
                self._tell(message)
            elif event == "ready":
                ready.add(message["node"])
                if len(ready) == self.request.nodes and not gone:
                    gone = True
                    self._order({"do": "go"})
            elif event == "failed":
                failures.append(message["failure"])
                settle = settle or time.monotonic() + SETTLE
            elif event == "ended":
                parts.append(message)

    def _collect(self, parts):
        # type: (List[Dict[str, Any]]) -> None
        """After the order to end: what the nodes hand in within a while. A lost node hands in nothing."""
        end = time.monotonic() + SILENCE
        try:
            while len(parts) < len(self._links) and time.monotonic() < end:
                message = self._next(end - time.monotonic())
                if message is not None and message["event"] == "ended":
                    parts.append(message)
        except Failed:
            pass
