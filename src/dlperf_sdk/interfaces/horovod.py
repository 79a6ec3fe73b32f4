"""What the environment of the strategy `horovod` contains beside a framework, for every plugin that offers it."""

from __future__ import annotations

from collections.abc import Mapping

from dlperf_sdk.interfaces.framework import SourceBuild

HOROVOD = ("horovod==0.28.1", "cloudpickle", "cmake<4", "packaging", "psutil", "pyyaml", "wheel")
"""Horovod, what it imports, and what its build needs, CMake included. It also needs setuptools, in a version that fits
the framework."""


def horovod_build(device: str, variables: Mapping[str, str], programs: tuple[str, ...] = ()) -> SourceBuild:
    """Return how Horovod is built: with gloo, and with NCCL for other devices than CPUs. On PyPI there are no wheels.

    Args:
        device: The kind of device.
        variables: Further variables of the build, such as those that choose the framework.
        programs: Further programs that the build needs on PATH.
    """
    operations = {} if device == "cpu" else {"HOROVOD_GPU_OPERATIONS": "NCCL"}
    gloo = {"HOROVOD_WITH_GLOO": "1", "HOROVOD_WITHOUT_MPI": "1", "HOROVOD_CPU_OPERATIONS": "GLOO"}
    return SourceBuild("horovod", {**gloo, **operations, **variables}, ("g++", "make", *programs))
