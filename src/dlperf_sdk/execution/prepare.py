"""Everything that a case needs before it is launched: its environment, found or made, and its data."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from dlperf_sdk import data, environments
from dlperf_sdk.environments import PreparedEnvironment
from dlperf_sdk.environments.container import inside
from dlperf_sdk.errors import Unavailable, UsageError
from dlperf_sdk.execution.recorder import Collector
from dlperf_sdk.planning.plan import Plan
from dlperf_sdk.results.result import Environment
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.worker.request import Request


@frozen
class Ready:
    """What a case is launched with."""

    plan: Plan
    prepared: PreparedEnvironment
    variables: Mapping[str, str]
    """Those that were requested, as the workers get them."""
    samples: Mapping[str, Any]
    """What the preparation of its data found."""

    def request(self, run_id: str, attempt: int | None = None) -> Request:
        """What the nodes are told: of all repeats, or of one, under the number `attempt`."""
        request = self.plan.request(run_id, self.prepared.command, self.variables, self.samples)
        if attempt is None:
            return request
        once = {**request.protocol, "repeats": 1, "max_repeats": 1, "target": None}
        return request._replace(first_attempt=attempt, protocol=once)


def made_ready(planned: Plan, like: Environment | None, collected: Collector) -> Ready:
    """Announce a case, and make ready what it trains on and what it runs in; `like` is another result's environment.

    Raises:
        RunFailed: an environment or the data cannot be had.
        PluginError: the plugin's specification of its environment cannot be understood.
        StoreError: what was found cannot be written.
    """
    announce(planned, collected)
    # Before the environment, which may be gigabytes: a folder's name is easily mistyped.
    samples = _data(planned, collected)
    prepared = _environment(planned, like, collected)
    variables = requested_variables(planned.spec)
    collected.runs_in(
        Environment(
            kind=prepared.kind,
            python=prepared.python,
            lock=prepared.lock,
            command=prepared.command,
            variables=variables,
            plugin=planned.plugin,
        )
    )
    return Ready(planned, prepared, variables, samples)


def announce(planned: Plan, collected: Collector) -> None:
    """Write down what follows from what was asked for, and tell the observers that it begins."""
    directory = collected.directory
    if directory is not None:
        directory.write_plan(planned.to_dict())
    place = None if directory is None else str(directory.path)
    collected.observers.tell("dlperf_run_started", run_id=collected.run_id, plan=planned, directory=place)


def own_environment(planned: Plan, say: Callable[[str], None]) -> PreparedEnvironment:
    """The environment that a case asks for, whatever earlier results ran in; `say` is told how it goes.

    Raises:
        EnvironmentFailed, PluginError: as `environments.prepare` does.
    """
    spec = planned.spec
    return environments.prepare(
        spec.framework,
        planned.environment,
        planned.device,
        python=spec.python,
        inside=inside(spec, planned.device),
        env=spec.env,
        on_progress=say,
    )


def _environment(planned: Plan, like: Environment | None, collected: Collector) -> PreparedEnvironment:
    """The environment to run in: the framework's own, or one like another result's."""
    say = collected.stage("environment")
    if like is None or planned.spec.container:  # a container is named anew, not rebuilt
        return own_environment(planned, say)
    return environments.from_lock(
        planned.spec.framework,
        planned.device,
        like.python,
        like.lock,
        asked=planned.environment.requirements,
        uv_options=planned.environment.uv_options,
        on_progress=say,
    )


def requested_variables(spec: RunSpec) -> dict[str, str]:
    """The requested variables as the workers get them; one that this shell has not got is not handed on."""
    found = {name: os.environ.get(name) if value is None else value for name, value in spec.env.items()}
    return {name: value for name, value in found.items() if value is not None}


def _data(planned: Plan, collected: Collector) -> Mapping[str, Any]:
    """The data is made ready here: never inside the window.

    Raises:
        Unavailable: what is in its folder cannot be used, or there is no room for what is made of it. The case was
            understood, so that is its failure, and no other case's of a campaign.
    """
    say = collected.stage("data")
    try:
        return data.prepare(
            planned.spec.data,
            planned.model_options,
            planned.inputs,
            seed=planned.spec.seed,
            on_progress=lambda what, done, total: say(f"{what} {done}/{total}"),
        )
    except UsageError as error:
        raise Unavailable(str(error)) from error
    except OSError as error:
        place = "" if error.filename is None else f" ({os.fsdecode(error.filename)})"
        raise Unavailable(
            f"The data {planned.spec.data} cannot be prepared: {error.strerror}{place}."
        ) from error
