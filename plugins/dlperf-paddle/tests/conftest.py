"""Worker halves for the tests, without agents: requests as the planner makes them, of small cases."""

import functools

import pytest
from dlperf_paddle.framework import Paddle

from dlperf_sdk.harness import in_process

make_request = functools.partial(in_process.small_request, Paddle)


@pytest.fixture
def make_trainer():
    """Builds the trainer of a case with one replica, its runtime started: `make_trainer("resnet50")`."""
    with in_process.small_trainers(Paddle) as make:
        yield make
