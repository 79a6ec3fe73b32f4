"""The environment variables of workers from the controller's view: for plans, and to probe an interpreter."""

from __future__ import annotations

from collections.abc import Mapping

from dlperf_sdk.worker.variables import worker_environment


def worker_variables(requested: Mapping[str, str | None], inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that a worker on this machine would get, as name → value.

    Variables that an agent sets for each process, such as the rank and the numbers of threads, are left out. The agents
    apply this rule, `dlperf_sdk.worker.variables.worker_environment`, to the variables of their own nodes.

    Args:
        requested: The variables that the run's spec sets (`RunSpec.env`); None as a value passes on the value in
            `inherited`, if it has one.
        inherited: Variables of the process that starts the worker, of which only those in
            `dlperf_sdk.worker.variables.INHERITED`, or with a prefix in `INHERITED_PREFIXES`, are passed on.
    """
    return worker_environment(inherited, requested, {})
