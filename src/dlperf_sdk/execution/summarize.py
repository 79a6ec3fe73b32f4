"""Summarize everything that a case recorded as its result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import dlperf_sdk
from dlperf_sdk.documents import schema
from dlperf_sdk.documents.json_values import check_plain
from dlperf_sdk.execution.case_record import cut_note
from dlperf_sdk.execution.facts import facts_of
from dlperf_sdk.interfaces.measurer import Measurer, Metric
from dlperf_sdk.planning.plan import Plan
from dlperf_sdk.results.convert import to_plain
from dlperf_sdk.results.metrics import measured_of
from dlperf_sdk.results.records import Repeat
from dlperf_sdk.results.result import Parity, Result, Verdict
from dlperf_sdk.results.verdicts import Expected, judge
from dlperf_sdk.worker.processes import TRAINER

if TYPE_CHECKING:
    from dlperf_sdk.execution.case import Case


def summarize(case: Case, finished_at: str) -> Result:
    """Return the result of a case, failed or not. Nothing is written.

    Repeats that finished before a failure count like any others. A measurer that fails leaves a note in place of
    its metrics. Metrics and verdicts are empty without a finished repeat.

    Args:
        case: The case.
        finished_at: The time at which it ended, in UTC and ISO 8601.

    Raises:
        PluginError: A measurer that was not needed before cannot be loaded.
    """
    plan, repeats, failure = case.plan, tuple(case.repeats), case.failure
    metrics: tuple[Metric, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    notes = tuple(case.notes)
    if plan is not None and repeats:
        metrics, problems = _metrics(plan, repeats, case.registry.measurers())
        verdicts = _verdicts(case.id, plan, repeats, case.parity)
        notes += problems
    return Result(
        id=case.id,
        status="ok" if failure is None else failure.kind,
        failure=failure,
        spec=case.spec,
        facts=facts_of(
            case.spec,
            plan,
            [record for repeat in repeats for record in repeat.records],
            None if case.environment is None else case.environment.variables,
        ),
        metrics=metrics,
        verdicts=verdicts,
        repeats=repeats,
        stopping=case.stopping() if failure is None else None,
        environment=case.environment,
        hardware=tuple(case.hardware),
        workload=None if plan is None else plan.workload,
        notes=notes,
        started_at=case.started_at,
        finished_at=finished_at,
        sdk_version=dlperf_sdk.__version__,
        parity=case.parity,
        traces=case.traces,
    )


def _verdicts(
    run_id: str, plan: Plan, repeats: tuple[Repeat, ...], parity: Parity | None
) -> tuple[Verdict, ...]:
    spec = plan.spec.executed
    expected = Expected(
        request=run_id,
        ranks=sum(process.role == TRAINER for process in plan.placeholder_processes()),
        replicas=spec.topology.devices,
        batch_size=spec.batch_size,
        precision=spec.precision,
        strategy=spec.strategy,
        protocol=plan.protocol,
        learning_rate_policy=spec.learning_rate_policy,
        compiler=spec.compiler,
        layout=spec.layout,
        has_dropout=bool(plan.model_options.get("dropout")),
        part=spec.part,
        parameters=plan.workload.parameters,
    )
    return judge(repeats, expected, parity)


def _metrics(
    plan: Plan, repeats: tuple[Repeat, ...], measurers: Sequence[Measurer]
) -> tuple[tuple[Metric, ...], tuple[str, ...]]:
    """Return all metrics, and a note for each measurer that failed: its error must not lose the other metrics."""
    measured = measured_of(plan.spec, plan.workload, plan.device, repeats)
    metrics: list[Metric] = []
    problems: list[str] = []
    for measurer in measurers:
        try:
            summary = tuple(measurer.summarize(measured))
            for metric in summary:
                document = to_plain(metric)
                check_plain(document, "The metric")
                schema.check("result", document, "metric")
            metrics += summary
        except Exception as error:
            text = f"The measurer {measurer.name} failed, its metrics are missing: {type(error).__name__}: {error}"
            problems.append(cut_note(text))
    return tuple(metrics), tuple(problems)
