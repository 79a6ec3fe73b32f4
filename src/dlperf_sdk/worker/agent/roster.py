"""The coordinator's view of the nodes: their introductions, losses and messages."""

import queue
import socket
import time
from typing import Any, Callable, Dict, Iterable, List, Optional, Set, Tuple

from dlperf_sdk.worker.agent import preflight
from dlperf_sdk.worker.agent.branches import Branches
from dlperf_sdk.worker.agent.link import SILENCE
from dlperf_sdk.worker.agent.messages import check_message
from dlperf_sdk.worker.agent.tree import Tree
from dlperf_sdk.worker.failures import Failed, failure

_MOST_WAITING = 4096
"""While so many messages wait in the inbox, nothing is read from the nodes: this bounds the memory."""
_LOSSES = {"gone": "has gone", "silent": "has not been heard for %.0f s" % SILENCE}
"""Events that report the loss of a node → what happened to it."""


class Roster:
    """All nodes, as their messages describe them, and one inbox of these messages.

    Args:
        tree: The tree in which the nodes are connected.
        most_processes: Maximum number of processes that a node may have.
        listener: The socket at which agents connect.
        secret: The bundle's secret.
        while_waiting: Called at least once a second while the roster waits for messages.
    """

    def __init__(
        self,
        tree: Tree,
        most_processes: int,
        listener: socket.socket,
        secret: str,
        while_waiting: Callable[[], None],
    ) -> None:
        self._tree, self._listener, self._while_waiting = tree, listener, while_waiting
        self._most_processes = most_processes
        self._inbox: "queue.Queue[Dict[str, Any]]" = queue.Queue()
        self._branches = Branches(
            tree,
            0,
            listener,
            secret,
            self._receive,
            self._find_relay,
            lambda: self._inbox.qsize() >= _MOST_WAITING,
        )
        self._relays: Dict[int, List[Any]] = {}
        """Number of each node that has started a relay → the relay's address and port."""
        self._shortages: Dict[int, str] = {}
        """Number of each node whose relay cannot accept every connection → the reason."""
        self._connected: Set[int] = set()
        self._hellos: Dict[int, Dict[str, Any]] = {}

    def gather(self, timeout: float) -> None:
        """Start to accept agents, and wait until every node has sent a `hello`.

        Raises:
            Failed: After `timeout` seconds some nodes have not reported, a node cannot run the case, a connection
                was lost, or the nodes have different environments.
        """
        self._branches.start()
        deadline = time.monotonic() + timeout
        while len(self._hellos) < self._tree.nodes:
            message = self.next(deadline - time.monotonic())
            if message is None:
                missing = sorted(set(range(self._tree.nodes)) - set(self._hellos))
                message_text = (
                    "No word from the agents of nodes %s within %.0f s (the deadline 'start'). Check that they were "
                    "started and can reach %s:%d."
                )
                text = message_text % ((missing, timeout) + self._listener.getsockname()[:2])
                raise Failed(failure("lost-node", text + self._explain_missing(missing), "start", missing[0]))
            if message["event"] == "hello":
                self._hellos[message["node"]] = message
                if message.get("unfit"):
                    message_text = "%s %s." % (
                        _capital(self.name(message["node"])),
                        message["unfit"]["message"],
                    )
                    raise Failed(failure(message["unfit"]["kind"], message_text, "start", message["node"]))
        self._compare()

    def _explain_missing(self, missing: List[int]) -> str:
        """Return sentences about the relays to which missing nodes connect, and about nodes that lack descriptors."""
        parents = sorted({self._tree.parent(node) for node in missing} - {0, *missing})
        names = ", ".join(map(self.name, parents))
        sentences = ["Some of them connect to the relays of %s." % names] if parents else []
        shortages = dict(self._shortages)
        if self._branches.admission.shortage:
            shortages[0] = self._branches.admission.shortage
        sentences += ["On %s, %s." % (self.name(node), text) for node, text in sorted(shortages.items())]
        return "".join(" " + sentence for sentence in sentences)

    def _compare(self) -> None:
        """Check that the nodes of one case are alike. Raises Failed for the first that is not, by name."""
        reported = [
            (self.name(node), self._hellos[node].get("versions") or {}) for node in sorted(self._hellos)
        ]
        differs = preflight.difference(reported)
        if differs:
            message_text = _capital(differs) + ". All nodes of a case must have the same environment."
            different = next(node for node in sorted(self._hellos) if differs.startswith(self.name(node)))
            raise Failed(failure("environment", message_text, "start", different))

    def doorbells(self) -> List[List[Any]]:
        """Return `[node, address, port]` of each node that takes part in the connection test, by node number.

        In this test, nodes connect to the listening sockets of other nodes, their doorbells.
        """
        return [
            [node, self._hellos[node]["address"], self._hellos[node]["doorbell"]]
            for node in sorted(self._hellos)
            if self._hellos[node].get("doorbell")
        ]

    def name(self, node: int) -> str:
        """Return a node's name for messages: its number, and its host if known, as in `node 1 (gpu07)`."""
        host = self._hellos.get(node, {}).get("facts", {}).get("host")
        return "node %d (%s)" % (node, host) if host else "node %d" % node

    def notes(self) -> List[Tuple[int, str]]:
        """Return (node number, sentence) for each node whose clock differs from node 0's by more than `SKEW` (1 s).

        The pairs are in the order of the nodes; the list is empty if there are none.
        """
        return [
            (node, "The clock of %s is %+.1f s off node 0's." % (self.name(node), hello["skew"]))
            for node, hello in sorted(self._hellos.items())
            if hello.get("skew")
        ]

    def facts(self) -> List[Dict[str, Any]]:
        """Return the facts that each node reported about itself (`hardware.describe`), in the order of the nodes."""
        return [self._hellos[node]["facts"] for node in sorted(self._hellos)]

    def addresses(self) -> List[Tuple[int, str]]:
        """Return the number of each node and the address at which the others reach it, in the order of the nodes."""
        return [(node, self._hellos[node]["address"]) for node in sorted(self._hellos)]

    def connected_nodes(self) -> Set[int]:
        """Return the numbers of the connected nodes.

        A node is connected from its first message on. If it is silent, or a link on the way to it is lost, it is not
        connected until it sends another message.
        """
        return set(self._connected)

    def order(self, message: Dict[str, Any], nodes: Optional[Iterable[int]] = None) -> None:
        """Enqueue a message to `nodes`, by default to all; leave out nodes that are not connected. Return at once."""
        self._branches.send(message, nodes)

    def close(self) -> None:
        """Send `quit` to all connected nodes, and wait until it is sent, at most `SILENCE` (15) seconds in total.

        The connections stay open.
        """
        self.order({"do": "quit"})
        self._branches.await_sending(time.monotonic() + SILENCE)

    def order_each(self, message_for: Callable[[int, Dict[str, Any]], Dict[str, Any]]) -> None:
        """Enqueue to each connected node the message that `message_for` returns for it; return at once.

        Args:
            message_for: Called with the node's number and a dict of `address`, the node's address; `host_count`, the
                number of nodes on the same machine; and `host_index`, the node's index among these.
        """
        machines: Dict[Any, List[int]] = {}
        for node in sorted(self._hellos):
            machines.setdefault(self._hellos[node]["facts"].get("boot_id", node), []).append(node)
        for group in machines.values():
            for index, node in enumerate(group):
                place = {
                    "address": self._hellos[node]["address"],
                    "host_index": index,
                    "host_count": len(group),
                }
                if node in self._connected:
                    self.order(message_for(node, place), [node])

    def next(self, timeout: float) -> Optional[Dict[str, Any]]:
        """Return the next message that is not a heartbeat, and send heartbeats meanwhile.

        Args:
            timeout: Seconds to wait.

        Returns:
            The message, with `event` and `node`; None if there was none in time.

        Raises:
            Failed: A node's connection is lost, or the node has been silent for `SILENCE` (15) seconds; it is raised
                once for each such node. It is also raised if a node's agent ran out of a resource, or has sent a
                malformed message.
        """
        end = time.monotonic() + timeout
        while True:
            self._while_waiting()
            self._branches.beat_if_due()
            now = time.monotonic()
            message = self._received(max(0.0, min(1.0, end - now)))
            if message is None:
                if now >= end:
                    return None
                continue
            node = message["node"]
            try:
                check_message(message, self._most_processes)
            except ValueError as error:
                raise Failed(self._malformed(node, error)) from error
            event = message["event"]
            if event in _LOSSES:
                raise self._lost(node, _LOSSES[event])
            self._connected.add(node)
            if event == "exhausted":
                raise Failed(message["failure"])
            if event != "heartbeat":
                return message

    def _received(self, timeout: float) -> Optional[Dict[str, Any]]:
        """Return the next message in the inbox, or that a node is silent, which it can be with an empty inbox only."""
        try:
            return self._inbox.get_nowait()
        except queue.Empty:
            pass
        silent = self._branches.find_silent()
        if silent is not None:
            return {"event": "silent", "node": silent}
        try:
            return self._inbox.get(timeout=timeout)
        except queue.Empty:
            return None

    def _lost(self, node: int, reason: str) -> Failed:
        """Leave out a node and those behind its link, whose agents end themselves; return its failure."""
        self._branches.remove(node)
        self._connected = {other for other in self._connected if not self._tree.is_behind(other, node)}
        message = "The agent of %s %s. The other nodes' workers were ended; finished repeats are kept."
        return Failed(failure("lost-node", message % (self.name(node), reason), None, node))

    def _malformed(self, node: int, error: ValueError) -> Dict[str, Any]:
        message = (
            "Malformed message from %s: %s. Check the records of the plugin, and what else runs on that node with this "
            "run's bundle, which has its secret."
        )
        return failure("invalid-record", message % (self.name(node), error), None, node)

    def _receive(self, message: Dict[str, Any]) -> bool:
        """Take a message from the thread that serves the links."""
        if message.get("event") == "relay":
            self._relays[message["node"]] = [message.get("address"), message.get("port")]
            return True
        if message.get("event") == "shortage":
            self._shortages[message["node"]] = str(message.get("text"))
            return True
        time_there = message.get("time")
        message["skew"] = preflight.clock_offset(time_there) if isinstance(time_there, float) else None
        self._inbox.put(message)
        return True

    def _find_relay(self, node: Any) -> Optional[List[Any]]:
        return self._relays.get(self._tree.parent(node)) if type(node) is int else None


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
