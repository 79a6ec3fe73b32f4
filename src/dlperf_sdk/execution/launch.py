"""Launch a request: pack it with everything that the nodes need, have the launcher deliver it, and yield the events."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path
from typing import Any

from dlperf_sdk.environments.container import container_prefix
from dlperf_sdk.interfaces.topology import Job, Topology
from dlperf_sdk.launchers.events import launch_events
from dlperf_sdk.parity.evidence import ParityRun
from dlperf_sdk.planning import bundle
from dlperf_sdk.planning.plan import Plan
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.convert import to_plain
from dlperf_sdk.results.result import Parity
from dlperf_sdk.worker.agent.scratch import scratch as scratch_directory
from dlperf_sdk.worker.request import Request


def bundle_metadata(plan: Plan, parity: Parity | None = None) -> dict[str, Any]:
    """Return the facts of a case that its bundle holds, so that `replay` can make a result from the event stream.

    Args:
        plan: The plan of the case.
        parity: The evidence of parity; None if it is not known yet.

    Returns:
        A dictionary of JSON values with the keys `spec` (the run spec), `plugin` (distribution and version of the
        framework's plugin) and, if the evidence is known, `parity`.
    """
    known = {} if parity is None else {"parity": to_plain(parity)}
    return {"spec": plan.spec.to_dict(), "plugin": plan.plugin, **known}


def make_job(plan: Plan, id: str, bundle: Path, launcher: Topology) -> Job:
    """Return the job, as the launcher's `launch` takes it, that runs the case of a plan.

    Args:
        plan: The plan of the case.
        id: Id of the job: NAME for the run with this name, `parity-NAME` for its parity run.
        bundle: Path of the bundle.
        launcher: The launcher.
    """
    topology = plan.spec.topology
    return Job(
        id=id,
        bundle=bundle,
        nodes=topology.nodes,
        devices_per_node=topology.devices_per_node,
        device=plan.device,
        options=plan.topology_options,
        prefix=container_prefix(plan.spec, plan.device, launcher.placement_variables),
        start_timeout=plan.deadlines["start"],
    )


def launch(
    plan: Plan,
    request: Request,
    registry: Registry,
    deadline: float | None = None,
    report: Callable[[str, str], None] = lambda stage, detail: None,
    parity: ParityRun | Parity | None = None,
) -> Generator[dict[str, Any], None, None]:
    """Pack the bundle, start the agents, and yield the events of agent 0, of which `ended` is the last.

    An event is a dict of JSON values, with its kind under `event`. Nothing is done before the first event is requested.
    Closing the generator ends the agents. If agent 0 is lost, the event `ended` has a failure of the kind `lost-node`.
    Events `waiting` are not yielded, but reported in the stage `queue`.

    Args:
        plan: The plan of the case.
        request: The request for the nodes.
        registry: The plugins.
        deadline: A time on the monotonic clock, in seconds, at which the run fails; None for no limit.
        report: Called with a stage (`bundle`, `launch` or `queue`) and one line of progress.
        parity: A parity run for the agents to take first; or the evidence of parity that is known already; None for
            neither.

    Raises:
        PluginError: The plugin's files cannot be packed, or the launcher cannot be loaded.
        TimedOut: The deadline has passed.
        Unavailable: The launcher cannot place the job.
        OSError: The bundle cannot be written to the directory for temporary files.
    """
    topology = plan.spec.topology
    parity_request, evidence = (parity.request, None) if isinstance(parity, ParityRun) else (None, parity)
    launcher = registry.topology(topology.launcher)
    with scratch_directory() as scratch:
        path = Path(scratch) / f"{request.id}.pyz"
        packed = bundle.build(request, path, plan.packages, bundle_metadata(plan, evidence), parity_request)
        report("bundle", f"{len(packed.files)} files, SHA-256 {packed.digest}")
        job = make_job(plan, request.id, packed.path, launcher)
        agents = "1 agent" if topology.nodes == 1 else f"{topology.nodes} agents"
        report("launch", f"{agents}, placed by {topology.launcher}")
        with closing(launch_events(launcher, job, deadline)) as stream:
            for event in stream:
                if event["event"] == "waiting":
                    report("queue", str(event["text"]))
                else:
                    yield event
