"""Agents that a test plays: they join a coordinator, directly or through relays, and say what the test wants."""

from __future__ import annotations

from dlperf_sdk.worker.agent import joining, link, rendezvous
from dlperf_sdk.worker.agent.tree import Tree

SECRET = "5" * 64
_OPENED = []


class Node:
    """A node's agent. With a `tree`, it joins in its place there, and starts its relay if it has one."""

    def __init__(self, coordinator, node, secret=SECRET, tree: Tree | None = None, **hello):
        if tree is None:
            self.link = self.agent = link.connect(coordinator, secret, 5)
        else:
            self.link = rendezvous.join(coordinator[0], [coordinator[1]], secret, 20, tree, node)
            self.agent = joining.serve_below(tree, node, self.link, secret, ())
        _OPENED.append(self.agent)
        self.orders = self.agent.messages()
        self.node = node
        self.say(**{"event": "hello", "facts": {"boot_id": "one"}, "address": "127.0.0.1", **hello})

    def say(self, **message):
        self.agent.send({"node": self.node, **message})

    def ordered(self, order):
        message = next(message for message in self.orders if message["do"] != "beat")
        assert message["do"] == order, message
        return message

    def prepare(self, needs_table=False):
        assert self.ordered("prepare")["attempt"] == 1
        resources = {"devices": ["cpu:0"], "ports": ["1"], "interface": "lo"}
        self.say(event="prepared", notes=[], needs_table=needs_table, **resources)


def close_all():
    """Close the links of all nodes."""
    while _OPENED:
        _OPENED.pop().close()


def ready(*nodes):
    """Bring nodes to the barrier, and over it; gives their orders to start."""
    for node in nodes:
        node.prepare()
    orders = []
    for node in nodes:
        orders.append(node.ordered("start"))
    for node in nodes:
        node.say(event="ready", trainers=1)
    for node in nodes:
        node.ordered("go")
    return orders


def record(**changes):
    return {"rank": 0, "status": "ok", "samples": 8, "window": {"start": 1.0, "end": 2.0}, **changes}


def part(**changes):
    return {
        "event": "ended",
        "attempt": 1,
        "failures": [],
        "records": [record()],
        "exits": [],
        "series": [],
        "logs": 0,
        **changes,
    }
