"""Start one program of the conformance suite in the workers of a case, apart from any measurement."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

from attrs import frozen

from dlperf_sdk import environments
from dlperf_sdk.execution.launch import launch
from dlperf_sdk.planning.plan import make_plan
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.agent_events import failure_from
from dlperf_sdk.results.records import Failure
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.worker.conformance import ANSWERS


@frozen
class Outcome:
    """What a start left."""

    records: tuple[Mapping[str, Any], ...]
    """Of the trainers, by rank; empty where one failed."""
    failure: Failure | None
    log: str
    """The ends of the workers' logs."""


@frozen
class Answer:
    """What one trainer answered."""

    values: Mapping[str, Any]
    """See `dlperf_sdk.worker.conformance`; a key is missing where the worker failed before it."""

    @property
    def failed(self) -> str | None:
        """At what it failed, and how; None if it answered everything."""
        if self.values.get("asked") is None:
            return None
        return f"the worker failed when it was asked for {self.values['asked']}:\n{self.values['error']}"


def start(spec: RunSpec, registry: Registry, program: str, deadline: float | None = None) -> Outcome:
    """Start the workers of a case with one program; `deadline` bounds the seconds of each phase.

    Raises:
        RunFailed: they cannot be started.
    """
    plan = make_plan(spec, registry)
    prepared = environments.prepare(
        spec.framework, plan.environment, plan.device, python=spec.python, env=spec.env
    )
    request = plan.request("conformance", prepared.command, spec.env, {"source": spec.data.source})
    if deadline is not None:
        bounded = {phase: min(seconds, deadline) for phase, seconds in request.deadlines.items()}
        request = request._replace(deadlines=bounded)
    request = request._replace(program=program, samplers=[])
    attempt: Mapping[str, Any] = {}
    failure: Failure | None = None
    with environments.in_use(prepared), closing(launch(plan, request, registry)) as events:
        for event in events:
            if event["event"] == "attempt-ended":
                attempt = event
            if event["event"] == "ended" and event["failure"] is not None:
                failure = failure_from(event["failure"])
    logs = "\n".join(str(log["text"])[-8000:].rstrip() for log in attempt.get("logs", ()))
    records = () if failure is not None else tuple(attempt.get("records", ()))
    return Outcome(records, failure, logs)


def ask(spec: RunSpec, registry: Registry) -> tuple[Answer, ...]:
    """Ask the trainers of a case; return their answers by rank, or one that says how the start failed.

    Raises:
        RunFailed: they cannot be started.
    """
    outcome = start(spec, registry, "answer")
    if outcome.failure is None:
        return tuple(Answer(record["facts"][ANSWERS]) for record in outcome.records)
    error = outcome.failure.traceback or f"{outcome.log}\n{outcome.failure.message}"
    return (Answer({"asked": "anything", "error": error}),)
