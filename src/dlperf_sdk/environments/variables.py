"""The variables of workers, as the controller sees them: for plans, and for asking an interpreter."""

from __future__ import annotations

from collections.abc import Mapping

from dlperf_sdk.worker.variables import worker_environment


def worker_variables(requested: Mapping[str, str | None], inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a worker started from here would see, before its launch variables; pure.

    `requested` is the spec's `env`: None passes on the value from `inherited`, if it is set there. The agents
    apply the same rule, `dlperf_sdk.worker.variables.worker_environment`, to the variables of their own
    nodes.
    """
    return worker_environment(inherited, requested, {})
