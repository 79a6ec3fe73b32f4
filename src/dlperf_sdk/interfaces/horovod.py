"""What the environment of the strategy `horovod` contains beside a framework, for every plugin that offers it."""

from __future__ import annotations

from collections.abc import Mapping

from dlperf_sdk.interfaces.framework import SourceBuild

HOROVOD = ("horovod==0.28.1", "cloudpickle", "cmake<4", "packaging", "psutil", "pyyaml", "wheel")
"""Horovod, what it imports, and what its build needs, CMake included. It also needs setuptools, in a version that fits
the framework."""


def horovod_build(device: str, variables: Mapping[str, str], programs: tuple[str, ...] = ()) -> SourceBuild:
    """Return the build of Horovod from source, since it has no wheels: with gloo, and on GPUs also with NCCL.

    Args:
        device: The kind of device, such as `cpu` or `cuda`; all but `cpu` get NCCL.
        variables: Further environment variables of the build by name, such as those that choose the framework.
        programs: Further programs that the build needs on PATH, in addition to `g++` and `make`.
    """
    operations = {} if device == "cpu" else {"HOROVOD_GPU_OPERATIONS": "NCCL"}
    gloo = {"HOROVOD_WITH_GLOO": "1", "HOROVOD_WITHOUT_MPI": "1", "HOROVOD_CPU_OPERATIONS": "GLOO"}
    return SourceBuild("horovod", {**gloo, **operations, **variables}, ("g++", "make", *programs))
