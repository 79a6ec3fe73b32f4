"""Worker halves for the tests, without agents: requests as the planner makes them, of small cases."""

import functools

import pytest
from dlperf_mindspore.framework import MindSpore

from dlperf_sdk.harness import in_process

make_request = functools.partial(in_process.small_request, MindSpore)


@pytest.fixture
def make_trainer(monkeypatch):
    """Builds the trainer of a case with one replica, its runtime started: `make_trainer("resnet50")`."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with in_process.small_trainers(MindSpore) as make:
        yield make
