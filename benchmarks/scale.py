"""What a case of many nodes costs its coordinator, with simulated agents in other processes.

    .venv/bin/python benchmarks/scale.py                   # 1,000 nodes of 8 devices
    .venv/bin/python benchmarks/scale.py --nodes 10000

The coordinator is the real one, in a process of its own: it admits every node, compares their environments, lets them
try connections, has them choose devices and ports, starts one repeat, and collects the records of all ranks, which it
hands to the controller's stream. Nodes join through the tree, and its relays are real, too, in the processes of the
simulated agents. An agent is a connection that answers as a real one does, with the identifiers of eight GPUs and the
records of 100 steps. Processor seconds, bytes that were sent to nodes, memory, connections and descriptors are those of
the coordinator's process. The numbers of connections to nodes and of descriptors are read 50 times a second.

Bounds: 1,000 nodes in 10 s of processor time, 10,000 nodes in 120 s; at most 3,000 bytes sent per node, however many
there are; at most 65 connections to nodes and 256 descriptors. Each order `start` may contain only node 0 and the node
itself.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import resource
import selectors
import socket
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from dlperf_sdk import RunSpec
from dlperf_sdk.planning.plan import make_plan
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.worker.agent import exchange, joining, link, rendezvous
from dlperf_sdk.worker.agent.agent import HEARTBEAT
from dlperf_sdk.worker.agent.coordinator import Coordinator
from dlperf_sdk.worker.agent.relay import Relay
from dlperf_sdk.worker.agent.tree import FAN_OUT, Tree

DEVICES, STEPS = 8, 100
PATIENCE = 900.0
"""Seconds in which all nodes must have joined."""
SECRET = "0" * 64
SECONDS = {1_000: 10.0, 10_000: 120.0}
"""Nodes → most processor seconds."""
BYTES_PER_NODE = 3000
"""Most bytes sent, per node."""
CONNECTIONS = FAN_OUT + 1
"""Most connections to nodes at a time: node 0's own agent has one, too."""
DESCRIPTORS = 256
"""Most descriptors at a time: connections, peers without proof, and what the process itself has open."""


def _coordinate(nodes: int, started: Connection) -> None:
    """Drive a case to its end; send the port at once, and what it has cost at the end."""
    topology = f"{nodes}n{DEVICES}d@ssh"
    hosts = {"hosts": f"n[1-{nodes}]"}
    fields = {"topology": topology, "options": hosts, "repeats": 1, "deadlines": {"start": PATIENCE}}
    plan = make_plan(RunSpec(framework="numpy", model="linear", **fields), Registry())
    request = plan.request("scale", ("python",), {}, {"source": "synthetic"})
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    sent, received, last = [0], [0], dict[str, Any]()
    put_line = exchange.Channel.put_line

    def count(channel: exchange.Channel, line: bytes) -> None:
        sent[0] += len(line)
        put_line(channel, line)

    def emit(event: dict[str, Any]) -> None:
        received[0] += len(json.dumps(event, allow_nan=False).encode())
        last.update(event)

    exchange.Channel.put_line = count  # type: ignore[method-assign]
    started_at, processor = time.monotonic(), time.process_time()
    coordinator = Coordinator(request, listener, SECRET, emit)
    coordinator.start()
    started.send(listener.getsockname()[1])
    connections, descriptors = 0, 0
    while coordinator.is_alive():
        connections = max(connections, len(coordinator._roster._branches._channels))
        descriptors = max(descriptors, len(list(Path("/proc/self/fd").iterdir())))
        coordinator.join(0.02)
    started.send(
        {
            "failure": last["failure"],
            "seconds": time.monotonic() - started_at,
            "processor": time.process_time() - processor,
            "sent": sent[0],
            "to_controller": received[0],
            "connections": connections,
            "descriptors": descriptors,
            "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }
    )


class SimulatedAgent:
    """A node's connection to its parent in the tree, and its answers; the constructor connects and says `hello`.

    If the node has a relay, this is a real one, whose orders a thread of its own obeys.

    Args:
        node: Number of the node.
        nodes: Number of nodes.
        port: The coordinator's port on loopback.

    Attributes:
        is_over: True if the connection has ended, or must be closed.
    """

    def __init__(self, node: int, nodes: int, port: int) -> None:
        self.node, self._chance, tree = node, random.Random(node), Tree(nodes)
        joined = rendezvous.join("127.0.0.1", [port], SECRET, PATIENCE, tree, node)
        connection = joining.serve_below(tree, node, joined, SECRET, ())
        self.relay = connection if isinstance(connection, Relay) else None
        self.socket = joined.socket
        if self.relay is None:
            self.socket.setblocking(False)
        else:
            self.obeying = threading.Thread(target=self._obey_relay, daemon=True)
        self._received, self._to_send, self.is_over = b"", b"", False
        facts = {"host": f"n{node}", "boot_id": f"{node:032x}", "cpu": {"model": "EPYC", "usable": 96}}
        packages = {f"package-{number}": f"1.{number}.0" for number in range(100)}
        versions = {"python": "3.11.7", "packages": packages}
        address = f"10.{node >> 16}.{node >> 8 & 255}.{node & 255}"
        self.say("hello", facts=facts, address=address, door=20000, versions=versions, time=time.time())

    def say(self, event: str, **values: Any) -> None:
        """Send an event with these values, as far as the connection takes it now; the rest waits."""
        message = {"event": event, "node": self.node, **values}
        if self.relay is None:
            self._to_send += link.encode(message)
            self.flush()
        else:
            self.relay.send(message)

    def flush(self) -> bool:
        """Send what waits; return True if nothing waits any more."""
        try:
            while self._to_send:
                self._to_send = self._to_send[self.socket.send(self._to_send) :]
        except BlockingIOError:
            return False
        return True

    def read(self) -> None:
        """Obey the orders that have arrived."""
        data = self.socket.recv(1 << 20)
        self.is_over = not data
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            self._obey(json.loads(line))

    def _obey_relay(self) -> None:
        assert self.relay is not None
        for order in self.relay.messages():
            self._obey(order)
            if self.is_over:
                self.relay.close()

    def _obey(self, order: dict[str, Any]) -> None:
        getattr(self, "obey_" + order["do"].replace("-", "_"))(order)

    def obey_beat(self, order: dict[str, Any]) -> None:
        """Do nothing: the order is a heartbeat."""

    def obey_reach(self, order: dict[str, Any]) -> None:
        """Answer that all nodes can be reached."""
        self.say("reached", without=[])

    def obey_prepare(self, order: dict[str, Any]) -> None:
        """Answer with made-up devices and ports."""
        first = self._chance.randrange(20000, 31980)
        gpus = [f"GPU-{self._chance.randbytes(16).hex()}" for _ in range(DEVICES)]
        ports = [str(port) for port in range(first, first + 2 * DEVICES + 4)]
        self.say("prepared", devices=gpus, notes=[], ports=ports, interface="ib0", needs_table=False)

    def obey_start(self, order: dict[str, Any]) -> None:
        """Check that the order has no other nodes than 0 and this one, and answer that the workers have started."""
        assert self.node == 0 or order["nodes"].keys() == {"0", str(self.node)}
        for device in range(DEVICES):
            self.say("worker-started", attempt=order["attempt"], name=f"rank-{self._rank(device)}", pid=1)
        self.say("ready", trainers=DEVICES)

    def obey_go(self, order: dict[str, Any]) -> None:
        """Answer with the records of all ranks of the node."""
        self.say("progress", attempt=1, rank=self._rank(0), phase="measure", step=STEPS)
        records = [self._record(self._rank(device)) for device in range(DEVICES)]
        self.say("ended", attempt=1, failures=[], records=records, exits=[], series=[], logs=0)

    def obey_quit(self, order: dict[str, Any]) -> None:
        """Mark the connection as over."""
        self.is_over = True

    def _rank(self, device: int) -> int:
        return self.node * DEVICES + device

    def _record(self, rank: int) -> dict[str, Any]:
        times = [self._chance.random() for _ in range(STEPS)]
        window = {"start": 1000.0, "end": 1000.0 + sum(times)}
        replica = {"index": rank, "digest": f"{rank:064x}", "losses": times}
        values = {"samples": 64 * STEPS, "step_times": times, "data_waits": times, "replicas": [replica]}
        return {"rank": rank, "node": self.node, "status": "ok", "window": window, **values}


class Simulation:
    """The agents of some nodes in this process, until each is told to quit."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._with_relays: list[SimulatedAgent] = []
        self._beaten = time.monotonic()

    def run(self, numbers: range, nodes: int, port: int) -> None:
        """Let the agents of the nodes `numbers` join one after another, and obey; `port` is the coordinator's."""
        for node in numbers:
            agent = SimulatedAgent(node, nodes, port)
            if agent.relay is None:
                self._selector.register(agent.socket, selectors.EVENT_READ, agent)
            else:
                agent.obeying.start()
                self._with_relays.append(agent)
            self._serve(0.0)
        while self._selector.get_map():
            self._serve(HEARTBEAT)
        for agent in self._with_relays:
            agent.obeying.join()

    def _serve(self, patience: float) -> None:
        """Let agents answer, and send a heartbeat if one is due; wait at most `patience` seconds for an order."""
        for key, events in self._selector.select(patience):
            self._beat()  # a thousand agents take their time to make records
            agent = key.data
            if events & selectors.EVENT_READ:
                agent.read()
            if agent.is_over:
                self._selector.unregister(agent.socket)
                agent.socket.close()
                continue
            interest = selectors.EVENT_READ | (0 if agent.flush() else selectors.EVENT_WRITE)
            if key.events != interest:
                self._selector.modify(agent.socket, interest, agent)
        self._beat()

    def _beat(self) -> None:
        """Send a heartbeat for all agents if one is due."""
        if time.monotonic() - self._beaten > HEARTBEAT:
            for agent in [key.data for key in self._selector.get_map().values()] + self._with_relays:
                agent.say("heartbeat")
            self._beaten = time.monotonic()


def simulate(numbers: range, nodes: int, port: int) -> None:
    """Be the agents of some nodes, in this process, until each is told to quit."""
    Simulation().run(numbers, nodes, port)


def measure(nodes: int, processes: int) -> dict[str, Any]:
    """Return the costs of a case of `nodes` nodes for its coordinator, with the agents in `processes` processes.

    The keys are `failure` (None if it succeeded), `seconds`, `processor` in seconds, `sent` and `to_controller` in
    bytes, `memory`, the peak in bytes, and the greatest numbers of `connections` to nodes and of `descriptors`.
    """
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    coordinator = spawn.Process(target=_coordinate, args=(nodes, theirs))
    coordinator.start()
    port = ours.recv()
    parts = [range(first, nodes, processes) for first in range(processes)]
    agents = [spawn.Process(target=simulate, args=(part, nodes, port)) for part in parts]
    for process in agents:
        process.start()
    cost: dict[str, Any] = ours.recv()
    for process in (*agents, coordinator):
        process.join()
    return cost


def main() -> None:
    """Measure, and print the costs beside the bounds.

    Raises:
        SystemExit: The case failed, or a bound is exceeded.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=4, help="of simulated agents")
    chosen = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, chosen.nodes + 1000)), hard))
    cost = measure(chosen.nodes, chosen.processes)
    if cost["failure"] is not None:
        raise SystemExit(f"The case failed: {cost['failure']['message']}")
    seconds, bytes_per_node = SECONDS.get(chosen.nodes, float("inf")), cost["sent"] / chosen.nodes
    print(
        f"{chosen.nodes:,} nodes × {DEVICES}: {cost['processor']:.1f} s of processor time (bound: {seconds:.0f} s), "
        f"{cost['seconds']:.1f} s in all, {cost['sent'] / 1e6:.1f} MB sent to nodes, {bytes_per_node:,.0f} bytes per "
        f"node (bound: {BYTES_PER_NODE:,}), {cost['to_controller'] / 1e6:.0f} MB to the controller, "
        f"{cost['memory'] / 2**20:.0f} MiB of memory, at most {cost['connections']} connections to nodes (bound: "
        f"{CONNECTIONS}) and {cost['descriptors']} descriptors (bound: {DESCRIPTORS})"
    )
    is_open_wide = cost["connections"] > CONNECTIONS or cost["descriptors"] > DESCRIPTORS
    if cost["processor"] > seconds or bytes_per_node > BYTES_PER_NODE or is_open_wide:
        raise SystemExit("A bound is exceeded.")


if __name__ == "__main__":
    main()
