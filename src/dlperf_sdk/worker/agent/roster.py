"""The coordinator's view of the nodes: their introductions, connections, heartbeats and messages."""

import queue
import socket
import time
from typing import Any, Callable, Dict, Iterable, List, Optional, Set, Tuple

from dlperf_sdk.worker.agent import preflight
from dlperf_sdk.worker.agent.admission import Admission
from dlperf_sdk.worker.agent.exchange import Channel, Exchange, await_sending
from dlperf_sdk.worker.agent.link import SILENCE, encode
from dlperf_sdk.worker.failures import Failed, failure

BEAT = 2.0
"""Seconds between two heartbeats to the nodes: an agent that receives none for `SILENCE` seconds ends itself."""
_JUDGE = 1.0
"""Seconds between two searches for silent nodes."""


class Roster:
    """All nodes' channels, and one inbox of their messages.

    Args:
        nodes: Number of nodes.
        listener: The socket at which agents connect.
        secret: The bundle's secret.
        while_waiting: Called at least once a second while the roster waits for messages.
    """

    def __init__(
        self, nodes: int, listener: socket.socket, secret: str, while_waiting: Callable[[], None]
    ) -> None:
        self._nodes, self._listener, self._while_waiting = nodes, listener, while_waiting
        self._exchange = Exchange(self._receive, self._handle_loss)
        self._admission = Admission(listener, secret, nodes, self._exchange.add)
        self._inbox: "queue.Queue[Dict[str, Any]]" = queue.Queue()
        self._channels: Dict[int, Channel] = {}
        self._last_heartbeats: Dict[int, float] = {}
        self._hellos: Dict[int, Dict[str, Any]] = {}
        self._beat = self._checked_at = 0.0

    def gather(self, timeout: float) -> None:
        """Start to accept agents, and wait until every node has sent a `hello`.

        Raises:
            Failed: After `timeout` seconds some nodes have not reported, a node cannot run the case, a connection
                was lost, or the nodes have different environments.
        """
        self._exchange.start()
        self._admission.start()
        deadline = time.monotonic() + timeout
        while len(self._hellos) < self._nodes:
            message = self.next(deadline - time.monotonic())
            if message is None:
                missing = sorted(set(range(self._nodes)) - set(self._hellos))
                message_text = (
                    "No word from the agents of nodes %s within %.0f s (the deadline 'start'). Check that they were "
                    "started and can reach %s:%d."
                )
                address = self._listener.getsockname()[:2]
                text = "%s %s" % (message_text % ((missing, timeout) + address), self._admission.shortage)
                raise Failed(failure("lost-node", text.strip(), "start", missing[0]))
            if message["event"] == "hello":
                self._hellos[message["node"]] = message
                if message.get("unfit"):
                    message_text = "%s %s." % (
                        _capital(self.name(message["node"])),
                        message["unfit"]["message"],
                    )
                    raise Failed(failure(message["unfit"]["kind"], message_text, "start", message["node"]))
        self._compare()

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
        """Return `[node, address, port]` of each node that takes part in the connection test, by node number."""
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
        """Return node number and note for each clock that differs from node 0's by more than `SKEW` seconds."""
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
        """Return the numbers of the nodes whose connection has not been lost."""
        return set(self._channels)

    def order(self, message: Dict[str, Any], nodes: Optional[Iterable[int]] = None) -> None:
        """Enqueue a message to `nodes`, by default to all; leave out nodes that are not connected. Return at once."""
        line = encode(message)
        for node in list(self._channels) if nodes is None else nodes:
            if node in self._channels:
                self._channels[node].put_line(line)

    def close(self) -> None:
        """Send `quit` to all connected nodes, and wait until it is sent, at most `SILENCE` seconds in total.

        The connections stay open.
        """
        self.order({"do": "quit"})
        await_sending(list(self._channels.values()), time.monotonic() + SILENCE)

    def _beat_nodes(self) -> None:
        """Send a heartbeat to the nodes that have nothing else to receive."""
        line = encode({"do": "beat"})
        for channel in list(self._channels.values()):
            if channel.is_idle():
                channel.put_line(line)

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
                if node in self._channels:
                    self._channels[node].put(message_for(node, place))

    def next(self, timeout: float) -> Optional[Dict[str, Any]]:
        """Return the next message that is not a heartbeat, and send heartbeats meanwhile.

        Args:
            timeout: Seconds to wait.

        Returns:
            The message, with `event` and `node`; None if there was none in time.

        Raises:
            Failed: A node's connection is lost, or the node has been silent for too long; once for each such node. Or
                the node's agent ran out of a resource.
        """
        end = time.monotonic() + timeout
        while True:
            self._while_waiting()
            now = time.monotonic()
            if now - self._beat > BEAT:
                self._beat = now
                self._beat_nodes()
            message = self._received(max(0.0, min(1.0, end - now)))
            if message is None:
                if now >= end:
                    return None
                continue
            if message["event"] == "exhausted":
                raise Failed(message["failure"])
            if message["event"] == "gone":
                raise self._lost(message["node"], "has gone")
            if message["event"] != "heartbeat":
                return message

    def _received(self, timeout: float) -> Optional[Dict[str, Any]]:
        """Return the next message in the inbox, or None. Only with an empty inbox a node can count as silent.

        Raises:
            Failed: a node was silent for too long, and nothing of it waits to be read.
        """
        try:
            return self._inbox.get_nowait()
        except queue.Empty:
            pass
        complete_until = self._exchange.complete_until
        if complete_until - self._checked_at >= _JUDGE:
            self._checked_at = complete_until
            for node, last_message in list(self._last_heartbeats.items()):
                if complete_until - last_message > SILENCE:
                    raise self._lost(node, "has not been heard for %.0f s" % SILENCE)
        try:
            return self._inbox.get(timeout=timeout)
        except queue.Empty:
            return None

    def _lost(self, node: int, reason: str) -> Failed:
        self._last_heartbeats.pop(node, None)
        self._channels.pop(node, None)
        message = "The agent of %s %s. The other nodes' workers were ended; finished repeats are kept."
        return Failed(failure("lost-node", message % (self.name(node), reason), None, node))

    def _receive(self, channel: Channel, message: Dict[str, Any]) -> bool:
        """Take a message from the exchange's thread; False if it does not come from a node of this case."""
        node = message.get("node")
        if not isinstance(node, int) or not 0 <= node < self._nodes:
            channel.node = None
            return False
        channel.node = node
        self._channels.setdefault(node, channel)
        self._last_heartbeats[node] = time.monotonic()
        if isinstance(message.get("time"), float):
            message["skew"] = preflight.clock_offset(message["time"])
        self._inbox.put(message)
        return True

    def _handle_loss(self, channel: Channel) -> None:
        if channel.node is not None:
            self._inbox.put({"event": "gone", "node": channel.node})


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
