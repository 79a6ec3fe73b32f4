"""The launcher for a Ray cluster: an actor per node, in a placement group, starts the node's agent."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

from attrs import frozen

from dlperf_sdk.interfaces.topology import Job
from dlperf_sdk.launchers.agent_command import PlacementArguments, agent_command
from dlperf_sdk.launchers.command_launcher import CommandLauncher
from dlperf_sdk.launchers.options import AgentOptions, option

_NODE, _HOSTS = "DLPERF_RAY_NODE", "DLPERF_RAY_HOSTS"
_DRIVER = Path(__file__).with_name("driver")


def _validate_amount(_: Any, attribute: Any, value: float) -> None:
    if not (math.isfinite(value) and (value >= 0 or value == -1)):
        raise ValueError(f"{attribute.name} is {value}; give the amount per node, or -1 for the default")


@frozen
class RayOptions(AgentOptions):
    """Options of the launcher `ray`.

    Raises:
        ValueError: An amount is neither -1 nor a number from 0 on.
    """

    # Ray unpickles what the cluster sends, and imports the module that is named before `://`.
    address: str = option(
        "Ray cluster, such as 10.0.0.1:6379; auto: RAY_ADDRESS, or the one on this machine.",
        "auto",
        executes=True,
    )
    cpus: float = option(
        "CPUs to reserve on each node; -1: one per device.", -1.0, validator=_validate_amount
    )
    gpus: float = option(
        "GPUs to reserve on each node; -1: one per device if the device is cuda, else none.",
        -1.0,
        validator=_validate_amount,
    )
    ray_python: str = option(
        "Python that has the cluster's version of Ray; empty: the Python that runs dlperf.", executes=True
    )


class Ray(CommandLauncher):
    """The launcher behind `2n8d@ray`, on the nodes of an existing Ray cluster."""

    name = "ray"
    Options = RayOptions
    placement_variables = (_NODE, _HOSTS)

    def agent_commands(self, job: Job) -> list[tuple[str, ...]]:
        """Return a list of one command: that of the driver, a process that connects to Ray and starts all agents.

        The driver reads the bundle from its standard input, and forwards the agents' output. Nothing is started here.
        The options of `job` are `RayOptions`.
        """
        options: RayOptions = job.options
        placement = PlacementArguments(f"${_NODE}", f"${_HOSTS}", options.interface, options.ports)
        gpus = job.devices_per_node if job.device == "cuda" else 0
        settings = {
            "id": job.id,
            "nodes": job.nodes,
            "address": options.address,
            "bundle": {
                "CPU": job.devices_per_node if options.cpus == -1 else options.cpus,
                "GPU": gpus if options.gpus == -1 else options.gpus,
            },
            "timeout": job.start_timeout,
        }
        agent = agent_command(job, options.agent_python, placement)
        return [(options.ray_python or sys.executable, "-I", str(_DRIVER), json.dumps(settings), *agent)]
