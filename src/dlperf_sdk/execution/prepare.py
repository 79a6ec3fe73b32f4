"""Prepare what a case needs before it is launched: its environment, its data, and the evidence of parity."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from attrs import frozen

from dlperf_sdk import data, environments
from dlperf_sdk.environments import PreparedEnvironment
from dlperf_sdk.environments.container import container_prefix
from dlperf_sdk.errors import Unavailable, UsageError
from dlperf_sdk.execution.launch import launch
from dlperf_sdk.parity.evidence import ParityRun, follow_parity_run, plan_parity_run
from dlperf_sdk.planning.plan import Plan
from dlperf_sdk.planning.secret_variables import list_requested_variables, redact_variables
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.result import Environment, Parity
from dlperf_sdk.worker.request import Request

Report = Callable[[str, str], None]
"""Called with a stage, and one line of its progress."""


@frozen
class PreparedCase:
    """A plan with the environment, variables and data to launch it with."""

    plan: Plan
    environment: PreparedEnvironment
    variables: Mapping[str, str]
    """The requested variables with their values, as the workers get them."""
    data: Mapping[str, Any]
    """The prepared data, as `Request.data` holds it."""

    def request(self, run_id: str, attempt: int | None = None) -> Request:
        """Return the request that tells the nodes to measure the case.

        Args:
            run_id: The run's name.
            attempt: Number of the only repeat to take, counted from 1; None for all repeats of the protocol.
        """
        request = self.plan.request(run_id, self.environment.command, self.variables, self.data)
        if attempt is None:
            return request
        protocol = {**request.protocol, "repeats": 1, "max_repeats": 1, "target": None}
        return request._replace(first_attempt=attempt, protocol=protocol)

    def describe_environment(self) -> Environment:
        """Return the environment of the workers as a result records it, with hashes in place of secret values."""
        return Environment(
            kind=self.environment.kind,
            python=self.environment.python,
            lock=self.environment.lock,
            command=self.environment.command,
            variables=redact_variables(self.variables, self.plan.secrets),
            plugin=self.plan.plugin,
        )


def prepare_case(plan: Plan, environment_from: Environment | None, report: Report) -> PreparedCase:
    """Prepare a case's data, and then its environment; return data, environment and plan together.

    Args:
        plan: The plan of the case.
        environment_from: The environment of an earlier result, to be rebuilt from its lock; None for the plugin's
            own. It is ignored for a case with a container.
        report: Called with a stage (`data` or `environment`) and a line of progress.

    Raises:
        RunFailed: There is no usable environment, and none can be made (EnvironmentFailed), or the data cannot be used
            (Unavailable).
        DocumentError: The lock of the earlier environment is malformed.
        SpecError: An environment variable of the spec has only a hash as its value.
        PluginError: The plugin's specification of its environment is invalid.
    """
    variables = list_requested_variables(plan.spec)
    # Data first: a mistyped folder should fail before an environment of gigabytes is made.
    samples = prepare_data(plan, partial(report, "data"))
    environment = _prepare_environment(plan, environment_from, partial(report, "environment"))
    return PreparedCase(plan, environment, variables, samples)


def check_parity(
    run_id: str,
    prepared: PreparedCase,
    reference_case: str | None,
    registry: Registry,
    report: Report,
    *,
    use_cache: bool,
) -> Parity | ParityRun:
    """Return the evidence of parity, from the cache or from a parity run.

    Args:
        run_id: Name of the case's run.
        prepared: The prepared case.
        reference_case: Name of the case of the model's reference to compare with, such as `small`; None for the one
            that fits the learning-rate policy of the spec.
        registry: The plugins.
        report: Called with the stage `parity` and a line of progress.
        use_cache: True to accept the evidence of an earlier run.

    Returns:
        The evidence; or, for a launcher with a queue and without cached evidence, the parity run, which was not
        started: the first launch of the case has to include it.

    Raises:
        RunFailed: The parity run failed for a reason that would end the case as well, such as a lost node. A crash, a
            timeout or an invalid record is not raised: it is in the evidence.
        PluginError: The plugin's files cannot be packed.
        OSError: The bundle of the parity run cannot be written to the directory for temporary files.
    """
    plan = prepared.plan
    with environments.use_environment(prepared.environment):
        run = plan_parity_run(
            plan,
            prepared.environment,
            prepared.variables,
            registry,
            partial(report, "parity"),
            reference_case=reference_case,
            use_cache=use_cache,
        )
        if isinstance(run, Parity) or registry.topology(plan.spec.topology.launcher).has_queue():
            return run
        return follow_parity_run(run, launch(run.plan, run.request._replace(id=f"parity-{run_id}"), registry))


def prepare_own_environment(plan: Plan, on_progress: Callable[[str], None]) -> PreparedEnvironment:
    """Prepare and return the environment that a case requests, not that of an earlier result.

    Args:
        plan: The plan of the case.
        on_progress: Called with one line of progress at a time.

    Raises:
        EnvironmentFailed: There is no usable environment, and none can be made.
        SpecError: An environment variable of the spec has only a hash as its value.
        PluginError: The plugin's specification of its environment is invalid.
    """
    spec = plan.spec
    return environments.prepare(
        spec.framework,
        plan.environment,
        plan.device,
        python=spec.python,
        inside=container_prefix(spec, plan.device),
        env=list_requested_variables(spec),
        on_progress=on_progress,
    )


def _prepare_environment(
    plan: Plan, environment_from: Environment | None, on_progress: Callable[[str], None]
) -> PreparedEnvironment:
    if environment_from is None or plan.spec.container:  # a container is taken by name, not rebuilt
        return prepare_own_environment(plan, on_progress)
    return environments.obtain_from_lock(
        plan.spec.framework,
        plan.device,
        environment_from.python,
        environment_from.lock,
        requested=plan.environment.requirements,
        uv_options=plan.environment.uv_options,
        source_builds=plan.environment.source_builds,
        on_progress=on_progress,
    )


def prepare_data(plan: Plan, on_progress: Callable[[str], None]) -> Mapping[str, Any]:
    """Prepare the data of a case on this machine, before its workers start.

    Args:
        plan: The plan of the case.
        on_progress: Called with one line of progress at a time.

    Returns:
        The prepared data, as `Request.data` holds it: `source`, the name of the data source, and the entries that its
        preparation returned, as JSON values.

    Raises:
        Unavailable: The data in the folder cannot be used, or the prepared data cannot be written. Only this case
            fails; a campaign's other cases continue.
    """
    try:
        return data.prepare(
            plan.spec.executed.data,
            plan.model_options,
            plan.inputs,
            seed=plan.spec.seed,
            on_progress=lambda stage, done, total: on_progress(f"{stage} {done}/{total}"),
        )
    except UsageError as error:
        raise Unavailable(str(error)) from error
    except OSError as error:
        place = "" if error.filename is None else f" ({os.fsdecode(error.filename)})"
        raise Unavailable(
            f"The data {plan.spec.data} cannot be prepared: {error.strerror}{place}."
        ) from error
