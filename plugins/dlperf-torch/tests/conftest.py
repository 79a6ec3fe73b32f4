"""Worker halves for the tests, without agents: requests as the planner makes them, of small cases."""

import functools
import os

import pytest
from dlperf_torch.framework import Torch

from dlperf_sdk.harness import in_process

# Triton reads it once, when it is imported, which torch may do: its kernels are interpreted, and need no GPU.
os.environ["TRITON_INTERPRET"] = "1"

make_request = functools.partial(in_process.small_request, Torch)


@pytest.fixture
def make_trainer(monkeypatch):
    """Builds the trainer of a case with one replica, its runtime started: `make_trainer("resnet50")`."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with in_process.small_trainers(Torch) as make:
        yield make
