"""Measurement of one case on each node of a fleet, several nodes at a time.

Each node has its own controller, the process `fleet_node`: an ordinary run, whose result is in the store. So a
node that fails, or a controller that is killed, ends no other node's run.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import IO

import attrs
from attrs import frozen

from dlperf_sdk import data
from dlperf_sdk.analysis.fleet import LABEL, node_of
from dlperf_sdk.errors import SpecError, UsageError
from dlperf_sdk.launchers.processes import wait_or_kill
from dlperf_sdk.planning.plan import make_plan
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.result import Result
from dlperf_sdk.results.store import ResultStore, new_run_id
from dlperf_sdk.spec.identity import identity, window
from dlperf_sdk.spec.run_spec import RunSpec

_STOP_TIMEOUT = 60.0
"""Seconds for the controllers of the nodes to end after their standard input has closed."""
_POLL = 0.05
_TAIL = 2000
"""Number of characters from the end of a controller's standard error that explain a failure."""

Watch = Callable[[str, Result | str], None]
"""Function that receives each node that has ended, with its result, or the reason why there is none."""


@frozen
class _Running:
    """A node that is being measured."""

    node: str
    run_id: str
    process: subprocess.Popen[bytes]
    diagnostics: IO[bytes]


def plan_fleet(spec: RunSpec, hosts: Iterable[str], registry: Registry) -> dict[str, RunSpec]:
    """Return a dict from the name of each node of a fleet to the spec of its run. Nothing is started.

    The first spec is planned as a check. The name of a node is its host without the user: `n1` for `user@n1`. Each spec
    has this name as its label `node`.

    Args:
        spec: The case of one node.
        hosts: The hosts, as users write them, such as `user@n1`.
        registry: The plugins.

    Raises:
        SpecError: There is no host, a host occurs twice, the case has several nodes or the batch size `max`, or the
            data's folder does not exist.
        Unavailable: The launcher cannot choose the node, or cannot place the case from this machine.
        UsageError, PluginError, Unsupported: The case cannot be planned.
    """
    if spec.topology.nodes != 1:
        raise SpecError(
            f"A fleet measures each node by itself, and the topology is {spec.topology}; write "
            f"1n{spec.topology.devices_per_node}d@{spec.topology.launcher}."
        )
    if spec.wants_max_batch:
        raise SpecError("The nodes of a fleet train the same batch size; give a number instead of max.")
    launcher = registry.topology(spec.topology.launcher)
    specs: dict[str, RunSpec] = {}
    for host in hosts:
        name = host.rpartition("@")[2]
        if name in specs:
            raise SpecError(f"The host {name} is named twice.")
        options = launcher.place_on(host, spec.options)
        specs[name] = attrs.evolve(spec, options=options, labels={**spec.labels, LABEL: name})
    if not specs:
        raise SpecError("A fleet needs its nodes: name them with --hosts n1,n2 or --hostfile FILE.")
    data.check_exists(spec.data)
    make_plan(next(iter(specs.values())), registry)
    return specs


def _measured_nodes(specs: Mapping[str, RunSpec], store: ResultStore) -> set[str]:
    """Return the names of the nodes whose case has already finished in the store, validly or not."""
    done = set()
    for result in store:
        if not isinstance(result, Result) or result.failure is not None:
            continue
        spec = specs.get(node_of(result))
        if spec is not None and _case_of(spec) == _case_of(result.spec):
            done.add(node_of(result))
    return done


def run_fleet(
    specs: Mapping[str, RunSpec], store: ResultStore, *, parallel: int, watch: Watch
) -> dict[str, str]:
    """Measure the nodes whose case has not finished in the store yet, and return when all of them have ended.

    Args:
        specs: Name of a node → its case, as `plan_fleet` returns it.
        store: The store.
        parallel: Maximum number of nodes that are measured at the same time, at least 1.
        watch: Function that is called when a node has ended, with two arguments: the node's name, and its `Result` or
            a text with the reason why there is none.

    Returns:
        Name of each node that ended without a result → the reason, a text; empty if every node has a result.

    Raises:
        UsageError: `parallel` is below 1; nothing was started.
        StoreError: The store cannot be written, and nothing was started; or a new result cannot be read, and all
            workers have been ended.
        DocumentError: A new result is corrupt. All workers have been ended.
        KeyboardInterrupt: The user pressed Ctrl-C. All workers have been ended; finished nodes are in the store.
    """
    if parallel < 1:
        raise UsageError(f"parallel is {parallel}; it must be 1 or more.")
    store.probe()
    done = _measured_nodes(specs, store)
    waiting = [name for name in specs if name not in done]
    running: list[_Running] = []
    failures: dict[str, str] = {}
    try:
        while waiting or running:
            while waiting and len(running) < parallel:
                name = waiting.pop(0)
                running.append(_start(name, specs[name], store))
            ended = [node for node in running if node.process.poll() is not None]
            for node in ended:
                running.remove(node)
                outcome = _conclude(node, store)
                if isinstance(outcome, str):
                    failures[node.node] = outcome
                watch(node.node, outcome)
            if not ended:
                time.sleep(_POLL)
    finally:
        _stop(running)
    return failures


def _case_of(spec: RunSpec) -> tuple[str, str, int]:
    return identity(spec), window(spec), spec.resolved_protocol().repeats


def _start(name: str, spec: RunSpec, store: ResultStore) -> _Running:
    run_id = new_run_id(spec, datetime.now(UTC))
    request = {"spec": spec.to_dict(), "store": str(store.directory.absolute()), "run_id": run_id}
    diagnostics = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the process has ended
    process = subprocess.Popen(
        # -P: nothing is imported from the working directory.
        [sys.executable, "-P", "-m", "dlperf_sdk.campaigns.fleet_node"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=diagnostics,
        start_new_session=True,  # this process handles Ctrl-C
    )
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # it has ended already, and its diagnostics say why
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
    return _Running(name, run_id, process, diagnostics)


def _conclude(node: _Running, store: ResultStore) -> Result | str:
    """Return the result of a node whose controller has ended, or the reason why there is none."""
    assert node.process.stdin is not None
    with suppress(BrokenPipeError):
        node.process.stdin.close()
    with node.diagnostics:
        node.diagnostics.seek(0)
        text = " ".join(node.diagnostics.read().decode(errors="replace")[-_TAIL:].split())
    if (store.directory / node.run_id / "result.json").exists():
        return store.load(node.run_id)
    return text or f"Its controller ended with exit code {node.process.returncode} and left no result."


def _stop(running: Iterable[_Running]) -> None:
    """End the controllers, which end their workers; kill those that have not ended after `_STOP_TIMEOUT` seconds."""
    running = list(running)
    for node in running:
        assert node.process.stdin is not None
        with suppress(BrokenPipeError):
            node.process.stdin.close()
    wait_or_kill((node.process for node in running), _STOP_TIMEOUT)
    for node in running:
        node.diagnostics.close()
