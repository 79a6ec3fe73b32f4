"""The options of the launcher `kubernetes`."""

from __future__ import annotations

import math
import re
from typing import Any

import attrs
from attrs import frozen

from dlperf_sdk.launchers.options import AgentOptions


def _matching(form: str, example: str) -> Any:
    """Return a validator for a text that is empty or has a form."""

    def validate(_: Any, attribute: Any, value: str) -> None:
        if value and not re.fullmatch(form, value):
            raise ValueError(f"{attribute.name} is {value[:100]!r}; expected a text such as {example}")

    return validate


def _validate_cpus(_: Any, attribute: Any, value: float) -> None:
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{attribute.name} is {value}; give the CPUs per node, or 0 for no limit")


@frozen
class KubernetesOptions(AgentOptions):
    """Options of the launcher `kubernetes`."""

    image: str = attrs.field(
        default="",
        validator=_matching(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,510}", "registry.example.org/torch:2.8"),
        metadata={"help": "Image with the environment of the framework; needed.", "executes": True},
    )
    agent_python: str = attrs.field(
        default="python3",
        metadata={
            "help": "Python of the image that has the framework; it also runs the agent.",
            "executes": True,
        },
    )
    cpus: float = attrs.field(
        default=0.0,
        validator=_validate_cpus,
        metadata={"help": "CPUs of each pod, as request and limit; 0: neither."},
    )
    memory: str = attrs.field(
        default="",
        validator=_matching(r"[0-9]+(\.[0-9]+)?([KMGTPE]i|[kMGTPE])?", "64Gi"),
        metadata={"help": "Memory of each pod, such as 64Gi, as request and limit; empty: neither."},
    )
    gpu_resource: str = attrs.field(
        default="nvidia.com/gpu",
        validator=_matching(r"[a-z0-9][a-z0-9.-]*/[A-Za-z0-9][A-Za-z0-9._-]*", "nvidia.com/gpu"),
        metadata={"help": "Resource that each pod gets one of per device, if the device is cuda."},
    )
    env_secret: str = attrs.field(
        default="",
        validator=_matching(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", "my-tokens"),
        metadata={
            "help": "An existing Secret whose keys become environment variables of the pods.",
            "reads": True,
        },
    )
