"""Name the commands that find and mend damaged files, where a failure may come from them."""

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
"""Exceptions by which Python answers to a damaged module before anything of it has run."""


def add_repair_advice(failure: Failure, environment: PreparedEnvironment | None) -> Failure:
    """Return the failure with advice in its message if a damaged managed environment would fail like this."""
    if environment is None or environment.kind != MANAGED:
        return failure
    if failure.phase != "start" or failure.type not in _SYMPTOMS:
        return failure
    name = environment.path.name
    advice = f"Its files may be damaged: `dlperf env verify {name}` finds out, `dlperf env repair {name}` mends them."
    return attrs.evolve(failure, message=f"{failure.message} {advice}")
