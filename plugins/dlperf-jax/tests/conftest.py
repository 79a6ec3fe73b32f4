"""Worker halves for the tests, without agents: requests as the planner makes them, of small cases."""

import functools
import importlib.util

import pytest
from dlperf_jax.framework import Jax

from dlperf_sdk.harness import in_process
from dlperf_sdk.worker.request import resolve

make_request = functools.partial(in_process.small_request, Jax)


def make_runtime(request):
    """Return the runtime of a case with one replica, not started, and its process."""
    cluster = in_process.cluster(request)
    process = resolve(request.processes)(cluster)[0]
    return resolve(request.runtime)(request, cluster, process), process


@pytest.fixture(scope="session", autouse=True)
def started():
    """The runtime that takes JAX's devices, before any test computes; None without JAX."""
    if importlib.util.find_spec("jax") is None:
        return None
    runtime, _ = make_runtime(make_request("bert-base"))
    runtime.start()
    return runtime


@pytest.fixture(scope="session")
def make_trainer(started):
    """Builds the trainer of a case with one replica: `make_trainer("resnet50")`.

    JAX takes its devices once in a process, so these runtimes are given what the first one took.
    """

    def make(model, **changes):
        request = make_request(model, **changes)
        runtime, process = make_runtime(request)
        runtime.replicas = started.replicas
        return resolve(request.trainer)(runtime, request, process)

    return make
