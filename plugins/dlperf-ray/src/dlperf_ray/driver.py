"""The program that starts agents in a Ray cluster; it needs Ray and the standard library only.

Standard input has the bundle and then signs of life, which the driver forwards to all agents. Standard output has the
lines of all agents; whatever Ray prints goes to standard error.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time

PART = 1 << 16
"""Bytes per call; Ray sends arguments of this size without storing them."""
POLL = 0.5
SETTLE = 5.0
"""Seconds after the end of a node's agent in which agent 0 may report the cause."""
STOP = 6.0
"""Seconds for the agents to end after their standard input has closed; the launcher waits for ten."""
PLACE, START = 0.8, 0.95
"""Shares of the deadline `start` until which the nodes must be free, and the agents must have started."""
CONNECT = 30.0
"""Most seconds to connect to the cluster."""


class Agent:
    """The actor of one node: it starts the node's agent, and forwards its input and output."""

    def describe(self):
        """Return the node's address."""
        import ray

        return ray.util.get_node_ip_address()

    def start(self, command, variables):
        """Start the agent; return why it could not be started, or None."""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - open until the actor ends
        # Ray starts its workers with a lower priority. Only root may raise it.
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, 0)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env={**environment, **variables},
                start_new_session=True,
            )
        except OSError as error:
            return error.strerror or str(error)
        return None

    def feed(self, data):
        """Write to the agent's standard input."""
        with contextlib.suppress(OSError, ValueError):  # the agent has ended: `read` reports that
            self._process.stdin.write(data)
            self._process.stdin.flush()

    def read(self):
        """Return what the agent has printed, at its end nothing; its exit code; the end of its standard error."""
        data = os.read(self._process.stdout.fileno(), PART)
        if data:
            return data, None, ""
        code = self._process.wait()
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - 4000))
        return b"", code, self._errors.read().decode("utf-8", "replace").strip()

    def close(self):
        """Close the agent's standard input, which ends it."""
        with contextlib.suppress(OSError):
            os.close(self._process.stdin.detach().detach().fileno())


class Input:
    """Standard input, which a thread reads."""

    def __init__(self):
        self.data, self.is_closed, self.is_connected = bytearray(), threading.Event(), False
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        while part := os.read(0, PART):
            self.data += part
        self.is_closed.set()
        if not self.is_connected:  # Ray cannot be interrupted while it connects; nothing has been started
            os._exit(1)


class Output:
    """The launcher's stream of lines: standard output, before everything else that prints goes to standard error."""

    def __init__(self):
        self._stream = os.fdopen(os.dup(1), "wb", 0)
        os.dup2(2, 1)
        self._rest = {}

    def add(self, node, data):
        """Write the lines that are complete."""
        *lines, self._rest[node] = (self._rest.get(node, b"") + data).split(b"\n")
        for line in lines:
            self._write(line)

    def event(self, **fields):
        """Write an event."""
        self._write(json.dumps(fields).encode())

    def fail(self, kind, message, node=None):
        """Write the last event of a run whose agents could not be started, or have died."""
        failure = {"kind": kind, "message": message, "phase": None, "node": node, "rank": None}
        self.event(event="ended", status=kind, failure=failure)

    def _write(self, line):
        line += b"\n"
        while line:
            line = line[self._stream.write(line) :]


def connect(settings, output):
    """Connect to the cluster; return Ray, or None after a failure was written."""
    address = settings["address"]
    try:
        import ray
    except ImportError as error:
        output.fail(
            "unavailable",
            f"{sys.executable} has no Ray ({error}). Install the cluster's version there, or name a Python that has "
            "it: --set ray_python=PATH.",
        )
        return None
    advice = "Check the address (--set address=HOST:PORT), and that `ray status` works on this machine."

    def give_up():
        output.fail(
            "unavailable", f"The Ray cluster {address} has not answered within {limit:.0f} s. {advice}"
        )
        os._exit(1)

    limit = min(CONNECT, PLACE * settings["timeout"])
    timer = threading.Timer(limit, give_up)
    timer.daemon = True
    timer.start()
    try:
        host, _, port = address.rpartition(":")
        if host and port.isdigit() and "://" not in host:
            socket.create_connection((host.strip("[]"), int(port)), limit).close()
        ray.init(address, log_to_driver=False, logging_level="ERROR", namespace="dlperf")
    except Exception as error:  # Ray raises a dozen types
        reason = " ".join(str(error).split())
        if "ersion mismatch" in reason:
            advice = "Install the cluster's versions, or name a Python that has them: --set ray_python=PATH."
        output.fail("unavailable", f"The Ray cluster {address} cannot be used: {reason} {advice}")
        return None
    finally:
        timer.cancel()
    return ray


def shortage(ray, settings):
    """Return what is free on each node and what is needed, in a sentence."""
    from ray._private.state import available_resources_per_node

    free = available_resources_per_node()
    needed = ", ".join(f"{amount:g} {name}" for name, amount in settings["bundle"].items() if amount)
    nodes = []
    for node in ray.nodes():
        if node["Alive"]:
            amounts, total = free.get(node["NodeID"], {}), node["Resources"]
            listed = ", ".join(
                f"{amounts.get(name, 0):g} of {total.get(name, 0):g} {name}" for name in settings["bundle"]
            )
            nodes.append(f"{node['NodeManagerAddress']}: {listed}")
    return (
        f"The case needs {settings['nodes']} nodes with {needed or 'no resources'} free on each; the cluster has "
        f"{len(nodes)} nodes ({'; '.join(nodes[:16])})."
    )


def place(ray, settings, deadline, source, output):
    """Return a placement group that is ready; None after a failure was written, or if the input has ended."""
    bundle = {name: amount for name, amount in settings["bundle"].items() if amount} or {"CPU": 0.001}
    group = ray.util.placement_group(
        [bundle] * settings["nodes"], strategy="STRICT_SPREAD", name=f"dlperf-{settings['id']}"
    )
    while not source.is_closed.is_set():
        remaining = deadline - time.monotonic()
        if group.wait(max(0.1, min(POLL, remaining))):
            return group
        text = shortage(ray, settings)
        if remaining <= 0:
            output.fail(
                "unavailable",
                f"{text} They have not become free within {PLACE * settings['timeout']:.0f} s. Ask for less (--set "
                "cpus=, gpus=, or a smaller topology), or add nodes to the cluster.",
            )
            break
        output.event(event="waiting", text=text)
    ray.util.remove_placement_group(group)
    return None


class Run:
    """The agents of a run.

    Args:
        ray: Ray, connected.
        group: The placement group.
        settings: The settings of the launcher.
        deadline: Time on the monotonic clock until which all agents must have started.
        source: The input of all agents.
        output: The stream.
    """

    def __init__(self, ray, group, settings, deadline, source, output):
        self._ray, self._source, self._output = ray, source, output
        bundle = settings["bundle"]
        actor = ray.remote(
            num_cpus=bundle["CPU"],
            num_gpus=bundle["GPU"],
            max_restarts=0,
            concurrency_groups={"feed": 1, "read": 1},
        )(Agent)
        strategy = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy
        self._actors = [
            actor.options(scheduling_strategy=strategy(group, placement_group_bundle_index=index)).remote()
            for index in range(settings["nodes"])
        ]
        self._deadline = deadline
        self._sent = [0] * len(self._actors)
        self._pending = {}
        self._failed = None

    def start(self, command):
        """Start all agents; return False after a failure was written."""
        hosts = self._get_all([actor.describe.remote() for actor in self._actors])
        if hosts is None:
            return False
        variables = {"DLPERF_RAY_HOSTS": ",".join(hosts[:2])}
        reasons = self._get_all(
            [
                actor.start.remote(command, {**variables, "DLPERF_RAY_NODE": str(node)})
                for node, actor in enumerate(self._actors)
            ]
        )
        if reasons is None:
            return False
        for node, reason in enumerate(reasons):
            if reason is not None:
                self._output.fail(
                    "unavailable",
                    f"{command[0]}, which runs the agents, cannot be started on node {node} ({hosts[node]}): {reason}. "
                    "Name a Python 3.7 or later that is on every node: --set agent_python=PATH.",
                    node,
                )
                return False
        for node in range(len(self._actors)):
            self._call("read", node)
        return True

    def _get_all(self, calls):
        """Return the results of a call on each node; None after a failure was written."""
        results = []
        for node, call in enumerate(calls):
            try:
                results.append(self._ray.get(call, timeout=max(0.1, self._deadline - time.monotonic())))
            except self._ray.exceptions.RayError as error:
                self._output.fail("lost-node", f"{self._lost(node)} {_first_line(error)}", node)
                return None
        return results

    def serve(self):
        """Forward input and output until the agent of node 0 or the input ends, or a node is lost."""
        feeding = set()
        while not self._source.is_closed.is_set():
            for node, sent in enumerate(self._sent):
                if node not in feeding and sent < len(self._source.data):
                    data = bytes(self._source.data[sent : sent + PART])
                    self._sent[node] += len(data)
                    self._call("feed", node, data)
                    feeding.add(node)
            if self._failed is not None and time.monotonic() > self._failed[0]:
                self._output.fail("lost-node", self._failed[2], self._failed[1])
                return
            ready, _ = (
                self._ray.wait(list(self._pending), num_returns=1, timeout=POLL)
                if self._pending
                else ([], [])
            )
            if not self._pending:
                time.sleep(POLL)
            for reference in ready:
                kind, node = self._pending.pop(reference)
                feeding -= {node} if kind == "feed" else set()
                if not self._receive(reference, kind, node):
                    return

    def _receive(self, reference, kind, node):
        """Handle the result of a call; return False at the end of agent 0."""
        try:
            result = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            if kind == "read":
                self._fail(node, f"{self._lost(node)} {_first_line(error)}")
            return True
        if kind == "feed":
            return True
        data, code, errors = result
        if data:
            self._output.add(node, data)
            self._call("read", node)
            return True
        sys.stderr.write(errors[-4000:])
        if code:
            self._fail(
                node,
                f"The agent of node {node} ended with exit code {code}. Check the Python that runs the agents there "
                f"(--set agent_python=). {errors[-1000:]}",
            )
        return node != 0

    def _lost(self, node):
        return (
            f"Ray has lost the actor of node {node}. Check with `ray list nodes` that the node is alive, and its "
            "memory."
        )

    def _fail(self, node, message):
        if self._failed is None:
            self._failed = time.monotonic() + SETTLE, node, message.strip()

    def stop(self):
        """End the agents, and wait until they have ended."""
        for actor in self._actors:
            actor.close.remote()
        deadline = time.monotonic() + STOP
        while self._pending and time.monotonic() < deadline:
            ready, _ = self._ray.wait(list(self._pending), num_returns=1, timeout=POLL)
            for reference in ready:
                kind, node = self._pending.pop(reference)
                with contextlib.suppress(self._ray.exceptions.RayError):
                    if kind == "read" and self._ray.get(reference)[0]:
                        self._call("read", node)

    def _call(self, kind, node, *arguments):
        method = getattr(self._actors[node], kind).options(concurrency_group=kind)
        self._pending[method.remote(*arguments)] = kind, node


def _first_line(error):
    return str(error).strip().partition("\n")[0]


def main(arguments):
    """Run the agents. The last event of the stream has the failure, if there is one.

    Args:
        arguments: The settings as JSON, then the agents' command.
    """
    output, source = Output(), Input()
    settings = json.loads(arguments[0])
    start_time = time.monotonic()
    ray = connect(settings, output)
    if ray is None:
        return
    source.is_connected = True
    group = place(ray, settings, start_time + PLACE * settings["timeout"], source, output)
    if group is None:
        ray.shutdown()
        return
    try:
        run = Run(ray, group, settings, start_time + START * settings["timeout"], source, output)
        if run.start(arguments[1:]):
            run.serve()
        run.stop()
    finally:
        ray.util.remove_placement_group(group)
        ray.shutdown()


if __name__ == "__main__":
    main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(0)  # a thread may still read standard input
