"""A request on its way: packed with everything that the nodes need, delivered by the launcher, and what comes back."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path
from typing import Any

from dlperf_sdk.environments.container import inside
from dlperf_sdk.interfaces.topology import Job
from dlperf_sdk.launchers.events import events
from dlperf_sdk.parity.evidence import Asked
from dlperf_sdk.planning import bundle
from dlperf_sdk.planning.plan import Plan
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.convert import to_plain
from dlperf_sdk.results.result import Parity
from dlperf_sdk.worker.agent.scratch import scratch as scratch_directory
from dlperf_sdk.worker.request import Request


def told(planned: Plan, parity: Parity | None = None) -> dict[str, Any]:
    """What a bundle says of its case, for whoever has only the stream of its run."""
    settled = {} if parity is None else {"parity": to_plain(parity)}
    return {"spec": planned.spec.to_dict(), "plugin": planned.plugin, **settled}


def launched(
    planned: Plan,
    request: Request,
    registry: Registry,
    until: float | None = None,
    say: Callable[[str], Callable[[str], None]] = lambda stage: lambda text: None,
    parity: Asked | Parity | None = None,
) -> Generator[dict[str, Any], None, None]:
    """Pack the bundle, start the agents, and yield what they tell until they have ended; closing it ends them.

    `say` gives, for the name of a stage, what is told how it goes. `parity` is a run that comes first, on the same
    agents, or what is known already.

    Raises:
        PluginError: the plugin's files cannot be packed.
        TimedOut: the time `until`, on the monotonic clock, has come.
        Unavailable: the launcher cannot place the job.
    """
    shape = planned.spec.topology
    first, known = (parity.request, None) if isinstance(parity, Asked) else (None, parity)
    launcher = registry.topology(shape.launcher)
    with scratch_directory() as scratch:
        path = Path(scratch) / f"{request.id}.pyz"
        packed = bundle.build(request, path, planned.packages, told(planned, known), first)
        say("bundle")(f"{len(packed.files)} files, SHA-256 {packed.digest}")
        job = Job(
            id=request.id,
            bundle=packed.path,
            nodes=shape.nodes,
            devices_per_node=shape.devices_per_node,
            device=planned.device,
            options=planned.topology_options,
            prefix=inside(planned.spec, planned.device, launcher.place_variables),
            patience=planned.deadlines["start"],
        )
        agents = "1 agent" if shape.nodes == 1 else f"{shape.nodes} agents"
        say("launch")(f"{agents}, placed by {shape.launcher}")
        waiting = say("queue")
        with closing(events(launcher, job, until)) as stream:
            for event in stream:
                if event["event"] == "waiting":
                    waiting(str(event["text"]))
                else:
                    yield event
