"""The agents of a run: started, fed and read through one actor per node."""

import contextlib
import sys
import time

from actor import PART, Agent
from cluster import POLL

SETTLE = 5.0
"""Seconds after the end of a node's agent in which agent 0 may report the cause."""
STOP = 6.0
"""Seconds for the agents to end after their standard input has closed; the launcher waits for ten."""


class Run:
    """The agents of a run, one per node, each on an actor of Ray; the constructor creates the actors.

    Args:
        ray: The module `ray`, connected.
        group: The placement group.
        settings: Dict of the launcher's settings; `nodes` and `bundle` (resource → amount per node) are read.
        deadline: Time of `time.monotonic()` until which all agents must have started.
        source: The `Input` that is forwarded to all agents.
        output: The `Output` to which the agents' lines, events and a failure are written.
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
        """Start all agents with `command`, a list of the program and its arguments.

        Call this once, and `serve` only if the result is True.

        Returns:
            True if all agents have started. False if one could not be started; `Output.fail` has then written why.
        """
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
        """Forward input and output until the agent of node 0 or the input ends, or a node is lost.

        A node is lost if Ray loses its actor. A node other than node 0 is also lost if its agent ends with an exit code
        other than 0. After a loss, the agent of node 0 has 5 s (`SETTLE`) to end; if it does not, a failure `lost-node`
        is written. The caller must call `stop` afterwards.
        """
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
        """End the agents, and wait until they have ended, at most 6 s (`STOP`); drop what they still print."""
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
