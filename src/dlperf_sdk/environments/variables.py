"""The environment variables of workers from the controller's view: for plans, and to probe an interpreter."""

from __future__ import annotations

from collections.abc import Mapping

from dlperf_sdk.worker.variables import worker_environment


def worker_variables(requested: Mapping[str, str | None], inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a worker started from here would get, without its launch variables.

    The agents apply the same rule, `dlperf_sdk.worker.variables.worker_environment`, to the variables of their own
    nodes.

    Args:
        requested: The spec's `env`; None as a value hands on the value in `inherited`, if it is set there.
        inherited: Variables of the starting process, of which only those on the allow-list are handed on.
    """
    return worker_environment(inherited, requested, {})
