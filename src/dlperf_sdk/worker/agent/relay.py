"""The relay: an agent's link to its parent in the tree, which also serves the agents that connect to this node."""

import queue
import socket
import threading
import time
from typing import Any, Dict, Iterator, Optional

from dlperf_sdk.worker.agent.branches import BEAT, Branches
from dlperf_sdk.worker.agent.exchange import Channel, Exchange
from dlperf_sdk.worker.agent.link import SILENCE, Link
from dlperf_sdk.worker.agent.tree import Tree

_LOOK = 0.5
"""Seconds between two looks for heartbeats that are due, and for silent nodes."""
_MOST_WAITING = 64
"""While so many messages wait to be sent to the parent, nothing is read from below: this bounds the memory."""


class Relay(threading.Thread):
    """A thread that passes orders and results on, between the parent's link and those of the nodes below.

    For its own node's agent it has the methods of a `Link`. None of them waits for a connection, apart from `close`.
    Heartbeats are not passed on. The relay sends its own to the parent and to the nodes below. It reports to the parent
    each node below whose link is lost (`gone`), and each that is silent (`silent`), its own agent included.

    Args:
        tree: The tree.
        node: This node's number.
        uplink: The link to the parent.
        listener: The socket at which the agents below connect.
        secret: The bundle's secret.
    """

    def __init__(self, tree: Tree, node: int, uplink: Link, listener: socket.socket, secret: str) -> None:
        super().__init__(daemon=True)
        self._node, self._link, self._listener = node, uplink, listener
        self.address: str = uplink.address
        """This node's address, as the parent reaches it."""
        self._branches = Branches(tree, node, listener, secret, self._forward, is_full=self._is_full)
        self._upward = Exchange(self._pass_down, lambda _: self._orders.put(None))
        self._orders: "queue.SimpleQueue[Optional[Dict[str, Any]]]" = queue.SimpleQueue()
        """Messages for this node's agent; None at the end."""

    def start(self) -> None:
        """Start to accept the agents below, report the relay's address and port to the parent, and return at once."""
        self._upward.start()
        self._uplink = self._upward.add(self._link)
        self._branches.start()
        super().start()
        address, port = self._listener.getsockname()[:2]
        self._uplink.put({"event": "relay", "node": self._node, "address": address, "port": port})

    def run(self) -> None:
        """Send heartbeats, and report silent nodes and a lack of descriptors, until the process ends.

        This runs in the thread that `start` starts.
        """
        beat_at, shortage = time.monotonic(), ""
        while True:
            time.sleep(_LOOK)
            self._branches.beat_if_due()
            now = time.monotonic()
            if now - beat_at > BEAT:
                beat_at = now
                self._uplink.put({"event": "heartbeat", "node": self._node})
            if self._branches.admission.shortage != shortage:
                shortage = self._branches.admission.shortage
                self._uplink.put({"event": "shortage", "node": self._node, "text": shortage})
            silent = self._branches.find_silent()
            if silent is not None:
                self._branches.remove(silent)
                self._uplink.put({"event": "silent", "node": silent})

    def send(self, message: Dict[str, Any]) -> bool:
        """Enqueue a message of this node's agent to the parent, and return at once; a heartbeat is not passed on.

        Returns:
            False if the parent is gone, else True.

        Raises:
            ValueError: The message contains a number that is not finite.
        """
        self._branches.note_message(self._node)
        if message["event"] != "heartbeat":
            self._uplink.put(message)
        return self._uplink.is_open

    def messages(self) -> Iterator[Dict[str, Any]]:
        """Wait for messages to this node's agent, and yield them, until the link to the parent is lost."""
        while True:
            message = self._orders.get()
            if message is None:
                return
            yield message

    def close(self) -> None:
        """Wait until all orders are passed on, at most `SILENCE` (15) seconds, and end the link to the parent."""
        self._branches.await_sending(time.monotonic() + SILENCE)
        self._link.shut_down()  # the thread that serves it closes it

    def _is_full(self) -> bool:
        return len(self._uplink.waiting) >= _MOST_WAITING and self._uplink.is_open

    def _forward(self, message: Dict[str, Any]) -> bool:
        """Pass a message from below to the parent; False if it has a value that JSON does not have."""
        event = message.get("event")
        if event == "gone":
            self._branches.remove(message["node"])
        if event != "heartbeat":
            try:
                self._uplink.put(message)
            except (ValueError, RecursionError):
                return False
        return True

    def _pass_down(self, _: Channel, message: Dict[str, Any]) -> bool:
        """Pass an order to the nodes that it is for; False if it is malformed."""
        nodes = message.pop("to", None)
        if not (nodes is None or isinstance(nodes, list) and all(type(node) is int for node in nodes)):
            return False
        if message.get("do") != "beat":
            below = nodes if nodes is None else [node for node in nodes if node != self._node]
            try:
                self._branches.send(message, below)
            except (ValueError, RecursionError):
                return False
            if nodes is not None and self._node not in nodes:
                message = {"do": "beat"}  # it is a sign of life of the parent all the same
        self._orders.put(message)
        return True
