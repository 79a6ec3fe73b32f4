"""Worker halves for the tests, without agents: requests as the planner makes them, of small cases."""

import functools

import pytest
from dlperf_megengine.framework import MegEngine

from dlperf_sdk.harness import in_process

make_request = functools.partial(in_process.small_request, MegEngine)


@pytest.fixture
def make_trainer(monkeypatch):
    """Builds the trainer of a case with one replica, its runtime started: `make_trainer("resnet50")`."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with in_process.small_trainers(MegEngine) as make:
        yield make
