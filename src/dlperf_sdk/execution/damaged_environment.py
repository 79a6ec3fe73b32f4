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
    """Return a failure with commands that check and repair the environment, if damaged files may have caused it.

    Damaged files are assumed possible if a worker of a managed environment failed at its start with an exception such
    as SyntaxError or ImportError. Any other failure is returned unchanged.

    Args:
        failure: The failure.
        environment: The environment of the workers; None if it is not prepared.
    """
    if environment is None or environment.kind != MANAGED:
        return failure
    if failure.phase != "start" or failure.type not in _SYMPTOMS:
        return failure
    name = environment.path.name
    advice = f"Its files may be damaged: `dlperf env verify {name}` finds out, `dlperf env repair {name}` mends them."
    return attrs.evolve(failure, message=f"{failure.message} {advice}")
