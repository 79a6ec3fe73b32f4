"""Add advice to a failure that damaged files of a managed environment may have caused."""

from __future__ import annotations

import attrs

from dlperf_sdk.environments import PreparedEnvironment
from dlperf_sdk.environments.prepared import MANAGED
from dlperf_sdk.results.records import Failure

_SYMPTOMS = (
    "SyntaxError",
    "IndentationError",
    "ImportError",
    "ModuleNotFoundError",
    "EOFError",
    "ValueError",
)
"""Exceptions that Python raises for a damaged module when it is imported."""


def add_repair_advice(failure: Failure, environment: PreparedEnvironment | None) -> Failure:
    """Append advice to a failure's message if damaged files of a managed environment may have caused the failure.

    The advice is a sentence with the commands `dlperf env verify NAME` and `dlperf env repair NAME`. Damaged files are
    a possible cause if a worker failed in the phase `start` with an exception such as SyntaxError or ImportError.

    Args:
        failure: The failure; it stays unchanged.
        environment: The environment of the workers; None if it is not prepared.

    Returns:
        A copy of `failure` with the longer message, or `failure` itself if it gets no advice.
    """
    if environment is None or environment.kind != MANAGED:
        return failure
    if failure.phase != "start" or failure.type not in _SYMPTOMS:
        return failure
    name = environment.path.name
    advice = f"Its files may be damaged: `dlperf env verify {name}` finds out, `dlperf env repair {name}` mends them."
    return attrs.evolve(failure, message=f"{failure.message} {advice}")
