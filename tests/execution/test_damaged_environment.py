"""The advice about damaged files of a managed environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlperf_sdk.environments import PreparedEnvironment
from dlperf_sdk.execution.damaged_environment import add_repair_advice
from dlperf_sdk.results.records import Failure

MANAGED = PreparedEnvironment(
    "managed", "toy", "cpu", "3.11.7", "", ("python",), "", Path("/cache/toy-cpu-1")
)
GIVEN = PreparedEnvironment("given", "toy", "cpu", "3.11.7", "", ("python",), "", Path())


def failure(type: str = "SyntaxError", phase: str = "start") -> Failure:
    return Failure("crashed", "It failed.", phase=phase, node=0, rank=0, type=type, traceback=None)


def test_a_syntax_error_in_a_managed_environment_names_the_commands():
    message = add_repair_advice(failure(), MANAGED).message
    assert message.startswith("It failed. ")
    assert "dlperf env verify toy-cpu-1" in message
    assert "dlperf env repair toy-cpu-1" in message


@pytest.mark.parametrize(
    ("failed", "environment"),
    [
        (failure(), GIVEN),
        (failure(), None),
        (failure("RuntimeError"), MANAGED),
        (failure(phase="measure"), MANAGED),
    ],
)
def test_other_failures_are_unchanged(failed, environment):
    assert add_repair_advice(failed, environment) == failed
