"""Start the workers of a case with a program of the conformance suite (`dlperf_sdk.worker.conformance`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any

import attrs
from attrs import frozen

from dlperf_sdk import environments
from dlperf_sdk.execution.case import Case
from dlperf_sdk.execution.launch import launch
from dlperf_sdk.execution.prepare import prepare_case, prepare_data
from dlperf_sdk.parity.evidence import ParityRun, evaluate_parity, plan_parity_run
from dlperf_sdk.planning.plan import Plan, make_plan
from dlperf_sdk.planning.secret_variables import list_requested_variables
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.agent_events import failure_from
from dlperf_sdk.results.records import Failure, Record
from dlperf_sdk.results.result import Parity, Result
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.worker.conformance import ANSWERS, PARITY


@frozen
class Outcome:
    """Outcome of a start of workers: their records or a failure, and their logs."""

    records: tuple[Mapping[str, Any], ...]
    """The trainers' records in the order of their ranks, as JSON objects; empty after a failure."""
    failure: Failure | None
    """The failure that ended the start; None if it succeeded."""
    log: str
    """The last 8000 characters of each worker's log, one after the other."""


@frozen
class Answer:
    """The answers of one trainer to the suite's questions."""

    values: Mapping[str, Any]
    """Answers by name, as `dlperf_sdk.worker.conformance` writes them. `asked` names the question that failed, or is
    None; after a failure `error` holds the traceback, and the answers to later questions are missing."""

    @property
    def failed(self) -> str | None:
        """A text with the question at which the trainer failed, and the traceback; None if it answered all of them."""
        if self.values.get("asked") is None:
            return None
        return f"the worker failed in the request for {self.values['asked']}:\n{self.values['error']}"


def start(
    spec: RunSpec,
    registry: Registry,
    program: str,
    deadline: float | None = None,
    on_progress: Callable[[str], None] = lambda text: None,
) -> Outcome:
    """Start the workers of a case with one program, wait until they end, and return their records, failure and logs.

    The data is prepared first, and the managed environment is made if it does not exist. No samplers run.

    Args:
        spec: The case.
        registry: The plugins.
        program: A key of `dlperf_sdk.worker.programs.PROGRAMS`, such as `answer`.
        deadline: Upper bound in seconds for the deadline of each phase; None leaves the deadlines as they are.
        on_progress: Called with one line of text at a time while the data and the managed environment are prepared.

    Raises:
        DlperfError: The case cannot be planned, its data cannot be used, its environment cannot be made, or the workers
            cannot be started. A failure of a started worker is in the outcome instead.
    """
    plan = make_plan(spec, registry)
    variables = list_requested_variables(plan.spec)
    samples = prepare_data(plan, on_progress)
    prepared = environments.prepare(
        spec.framework,
        plan.environment,
        plan.device,
        python=spec.python,
        env=variables,
        on_progress=on_progress,
    )
    request = plan.request("conformance", prepared.command, variables, samples)
    if deadline is not None:
        bounded = {phase: min(seconds, deadline) for phase, seconds in request.deadlines.items()}
        request = request._replace(deadlines=bounded)
    request = request._replace(program=program, samplers=[])
    attempt: Mapping[str, Any] = {}
    failure: Failure | None = None
    logs: dict[str, str] = {}
    with environments.use_environment(prepared), closing(launch(plan, request, registry)) as events:
        for event in events:
            if event["event"] == "attempt-ended":
                attempt = event
            if event["event"] == "log":
                logs[event["name"]] = logs.get(event["name"], "") + event["text"]
            if event["event"] == "ended" and event["failure"] is not None:
                failure = failure_from(event["failure"])
    log = "\n".join(text[-8000:].rstrip() for text in logs.values())
    records = () if failure is not None else tuple(attempt.get("records", ()))
    return Outcome(records, failure, log)


def check_case(
    case: Case, plan: Plan, reference_case: str
) -> tuple[Result, tuple[Answer, ...], Parity | None]:
    """Measure a case, ask its trainers the suite's questions, and run parity, all in one start of its workers.

    The parity is not stored in the cache: the parity run of an ordinary case takes place in new processes.

    Args:
        case: The case, begun and not yet prepared; it is measured and concluded here.
        plan: The plan of the case.
        reference_case: Name of the case in the model's reference that parity compares with.

    Returns:
        The result; the answers in the order of the ranks; and the parity. If the case failed, the answers are empty
        and the parity is None. The answers are also empty for two replicas with the clock "blocking", to which the
        suite has no questions.

    Raises:
        DlperfError: Any but a `RunFailed`, for example because a plugin is faulty. A `RunFailed` becomes the failure of
            the result.
    """
    parity: ParityRun | Parity | None = None
    with case.record_failures():
        prepared = prepare_case(plan, None, case.report)
        case.record_environment(prepared.describe_environment())
        with environments.use_environment(prepared.environment):
            parity = plan_parity_run(
                plan,
                prepared.environment,
                prepared.variables,
                case.registry,
                lambda text: None,
                reference_case=reference_case,
            )
            request = prepared.request(case.id)._replace(program="conformance")
            with closing(launch(plan, request, case.registry, parity=parity)) as events:
                for event in events:
                    case.record_event(event)
    result = case.conclude()
    if result.failure is not None:
        return result, (), None
    records = result.repeats[0].records
    answers = tuple(Answer(record.facts[ANSWERS]) for record in records if ANSWERS in record.facts)
    if isinstance(parity, ParityRun):
        # In a process that has measured before, which is no evidence for users' runs.
        parity = evaluate_parity(attrs.evolve(parity, cacheable=False), _parity_event(parity, records))
    return result, answers, parity


def _parity_event(parity: ParityRun, records: Sequence[Record]) -> Mapping[str, Any]:
    """Return the event that ends the attempt of a parity run, made of what the program `conformance` left."""
    head = {"request": parity.request.id, "attempt": 1, "status": "ok", "failure": None}
    records_found = [
        {
            **head,
            "rank": record.rank,
            "node": record.node,
            "facts": {},
            "observed": {},
            **record.facts[PARITY],
        }
        for record in records
    ]
    return {"event": "parity-ended", "failure": None, "records": records_found}


def ask(
    spec: RunSpec, registry: Registry, on_progress: Callable[[str], None] = lambda text: None
) -> tuple[Answer, ...]:
    """Start the trainers of a case with the suite's questions, and return their answers in the order of the ranks.

    If a worker fails, the tuple has only one answer, whose `failed` is not None. Its `values` has two entries: `asked`
    is the text `anything`; `error` is the traceback or, if there is none, the log and the failure's message.

    Args:
        spec: The case.
        registry: The plugins.
        on_progress: Called with one line of text at a time while the data and the managed environment are prepared.

    Raises:
        DlperfError: The case cannot be planned, its data cannot be used, its environment cannot be made, or the workers
            cannot be started.
    """
    outcome = start(spec, registry, "answer", on_progress=on_progress)
    if outcome.failure is None:
        return tuple(Answer(record["facts"][ANSWERS]) for record in outcome.records)
    error = outcome.failure.traceback or f"{outcome.log}\n{outcome.failure.message}"
    return (Answer({"asked": "anything", "error": error}),)
