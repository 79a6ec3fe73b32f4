"""Controller halves of the wrong torch trainers that need agents: torch's own, with another trainer."""

from dlperf_torch.framework import Torch

from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.testing import FrameworkConformance


def suite_of(fault):
    """The conformance suite of the plugin with this trainer."""
    name = f"torch-{fault.plugin.lower()}"
    trainers = {fault.model: f"torch_faults:{fault.plugin}"}
    members = {"name": name, "trainers": trainers, "packages": (*Torch.packages, "dlperf_torch")}
    registry = Registry({"frameworks": {name: type(name, (Torch,), members)}})
    return type(
        "Suite", (FrameworkConformance,), {"framework": name, "registry": registry, "device": "cpu"}
    )()
