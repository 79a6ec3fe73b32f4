"""The options of the launcher `kubernetes`."""

from __future__ import annotations

import math
import re
from typing import Any

from attrs import frozen

from dlperf_sdk.launchers.options import AgentOptions, option


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
    """Options of the launcher `kubernetes`.

    Raises:
        ValueError: An option is neither empty nor in the form that its help describes, or `cpus` is negative or not
            finite.
    """

    image: str = option(
        "Image with the environment of the framework; needed.",
        validator=_matching(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,510}", "registry.example.org/torch:2.8"),
        executes=True,
    )
    agent_python: str = option(
        "Python of the image that has the framework; it also runs the agent.", "python3", executes=True
    )
    cpus: float = option("CPUs of each pod, as request and limit; 0: neither.", 0.0, validator=_validate_cpus)
    memory: str = option(
        "Memory of each pod, such as 64Gi, as request and limit; empty: neither.",
        validator=_matching(r"[0-9]+(\.[0-9]+)?([KMGTPE]i|[kMGTPE])?", "64Gi"),
    )
    gpu_resource: str = option(
        "Resource that each pod gets one of per device, if the device is cuda.",
        "nvidia.com/gpu",
        validator=_matching(r"[a-z0-9][a-z0-9.-]*/[A-Za-z0-9][A-Za-z0-9._-]*", "nvidia.com/gpu"),
    )
    env_secret: str = option(
        "An existing Secret whose keys become environment variables of the pods.",
        validator=_matching(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", "my-tokens"),
        reads=True,
    )
