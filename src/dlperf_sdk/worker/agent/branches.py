"""The links of the coordinator or of a relay to the agents that connect to it; others are reached through these."""

import socket
import time
from typing import Any, Callable, Dict, Iterable, List, Optional

from dlperf_sdk.worker.agent.admission import Admission
from dlperf_sdk.worker.agent.exchange import Channel, Exchange, await_sending
from dlperf_sdk.worker.agent.link import SILENCE, FindRelay, encode
from dlperf_sdk.worker.agent.tree import Tree

BEAT = 2.0
"""Seconds between two heartbeats to each agent: one that receives none for `SILENCE` seconds ends itself."""
_JUDGE = 1.0
"""Seconds between two searches for silent nodes."""


class Branches:
    """The channels from one node to the agents directly below it, and the times of these agents' last messages.

    A message is sent once per link, however many nodes it is for. If it is not for every node behind a link, its field
    `to` lists the nodes that it is for.

    Args:
        tree: The tree.
        root: Number of the node to which the agents connect; 0 for the coordinator's node.
        listener: The socket at which agents connect.
        secret: The bundle's secret.
        receive: Called with each message from below, and with an event `gone` for a node whose link is lost. It runs in
            the thread that serves all links. If it returns False, the link is closed.
        find_relay: Called if an agent asks for its relay; see `Admission`.
        is_full: While it returns True, nothing is read; see `Exchange`.
    """

    def __init__(
        self,
        tree: Tree,
        root: int,
        listener: socket.socket,
        secret: str,
        receive: Callable[[Dict[str, Any]], bool],
        find_relay: FindRelay = lambda node: None,
        is_full: Callable[[], bool] = lambda: False,
    ) -> None:
        self._tree, self._root, self._deliver = tree, root, receive
        self.exchange = Exchange(self._receive, self._handle_loss, is_full)
        links = min(tree.nodes, tree.fan_out + 1)
        self.admission = Admission(listener, secret, links, self.exchange.add, find_relay)
        self._channels: Dict[int, Channel] = {}
        self._last_messages: Dict[int, float] = {}
        """Time of the last message of each node that has a link, or that `note_message` was called for."""
        self._beat_at = self._judged_at = 0.0

    def start(self) -> None:
        """Start the threads that accept agents and receive their messages; return at once."""
        self.exchange.start()
        self.admission.start()

    def send(self, message: Dict[str, Any], nodes: Optional[Iterable[int]] = None) -> None:
        """Enqueue a message to `nodes`, or with None to all nodes below this one; return at once.

        Nodes to which the link is lost are left out.
        """
        if nodes is None:
            line = encode(message)
            for channel in list(self._channels.values()):
                channel.put_line(line)
            return
        groups: Dict[int, List[int]] = {}
        for node in nodes:
            branch = self._tree.branch(node, self._root)
            if branch is not None:
                groups.setdefault(branch, []).append(node)
        for branch, group in groups.items():
            below = self._channels.get(branch)
            if below is not None:
                below.put(dict(message, to=group) if self._tree.has_relay(branch) else message)

    def beat_if_due(self) -> None:
        """Send a heartbeat over each link on which no other message waits.

        Do nothing if the last call that sent heartbeats was less than `BEAT` (2) seconds ago.
        """
        now = time.monotonic()
        if now - self._beat_at > BEAT:
            self._beat_at = now
            line = encode({"do": "beat"})
            for channel in list(self._channels.values()):
                if channel.is_idle():
                    channel.put_line(line)

    def note_message(self, node: int) -> None:
        """Record that a message of a node has arrived now, so that the node does not count as silent."""
        self._last_messages[node] = time.monotonic()

    def find_silent(self) -> Optional[int]:
        """Return the number of a node from which nothing came for `SILENCE` (15) seconds; None if there is none.

        A message that has arrived, but has not been read yet, counts as a sign of life. If the last search found
        nothing and was less than a second ago, the method does not search and returns None.
        """
        complete_until = self.exchange.complete_until
        if complete_until - self._judged_at < _JUDGE:
            return None
        for node, last_message in list(self._last_messages.items()):
            if complete_until - last_message > SILENCE:
                return node
        self._judged_at = complete_until
        return None

    def remove(self, node: int) -> None:
        """Stop sending to a node and to the nodes behind it, and stop checking whether it is silent.

        If a message comes from there later, both begin again.
        """
        self._last_messages.pop(node, None)
        self._channels.pop(node, None)

    def await_sending(self, deadline: float) -> None:
        """Wait until no message waits to be sent, but at most until `deadline` on the monotonic clock."""
        await_sending(list(self._channels.values()), deadline)

    def _receive(self, channel: Channel, message: Dict[str, Any]) -> bool:
        """Take a message from below; False if its node's messages come over another link."""
        node = message.get("node")
        branch = self._tree.branch(node, self._root) if type(node) is int else None
        if branch is None or branch != (node if channel.node is None else channel.node):
            return False
        if self._channels.setdefault(branch, channel) is not channel:
            return False  # another agent of the node is connected
        channel.node = branch
        self.note_message(branch)
        return self._deliver(message)

    def _handle_loss(self, channel: Channel) -> None:
        if channel.node is not None and self._channels.get(channel.node) is channel:
            self._deliver({"event": "gone", "node": channel.node})
