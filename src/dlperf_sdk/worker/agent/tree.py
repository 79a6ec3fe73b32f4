"""The tree in which orders and results travel, so that the coordinator's connections do not grow with the nodes.

Node 0's agent and those of nodes 1 to `fan_out` connect to the coordinator, which runs on node 0. The agent of every
other node connects to the relay of its parent. With at most `fan_out` nodes besides node 0, there is no relay.
"""

from typing import NamedTuple, Optional

FAN_OUT = 64
"""Maximum number of nodes whose agents connect to one other node."""


class Tree(NamedTuple):
    """The tree of a case's nodes."""

    nodes: int
    fan_out: int = FAN_OUT

    def parent(self, node: int) -> int:
        """Return the node to which a node's agent connects; 0 for node 0."""
        return max(0, (node - 1) // self.fan_out)

    def has_relay(self, node: int) -> bool:
        """Return True if a node has a relay: it is not node 0, and agents of other nodes connect to it."""
        return 0 < node and node * self.fan_out + 1 < self.nodes

    def branch(self, node: int, root: int) -> Optional[int]:
        """Return the node directly below `root` through which messages from `root` reach `node`.

        It is `node` itself if the agent of `node` connects to `root`. Node 0's agent connects to the coordinator on its
        own node, so node 0 is reached through node 0.

        Args:
            node: Number of the node to reach.
            root: Number of the node that serves the links below it.

        Returns:
            The number of the node; None if `node` is no node of the case, or does not lie below `root`.
        """
        if not 0 <= node < self.nodes:
            return None
        while self.parent(node) > root:
            node = self.parent(node)
        return node if self.parent(node) == root else None

    def is_behind(self, node: int, link: int) -> bool:
        """Return True if the messages of `node` pass through the link of the node `link` to its parent.

        True also if `node` is `link` itself.
        """
        return node == link or (link > 0 and self.branch(node, link) is not None)
