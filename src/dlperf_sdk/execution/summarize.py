"""From what came back to the result; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dlperf_sdk
from dlperf_sdk.execution.facts import facts_of
from dlperf_sdk.interfaces.measurer import Measured, Measurer, Metric
from dlperf_sdk.planning.plan import Plan
from dlperf_sdk.results.records import Failure, Repeat
from dlperf_sdk.results.result import Environment, Parity, Result, Stopping, Verdict
from dlperf_sdk.results.verdicts import Expected, judge
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.worker.processes import TRAINER


def summarise(
    *,
    run_id: str,
    spec: RunSpec,
    plan: Plan | None,
    environment: Environment | None,
    repeats: Sequence[Repeat],
    hardware: Sequence[Mapping[str, Any]],
    failure: Failure | None,
    stopping: Stopping | None,
    notes: Sequence[str],
    measurers: Sequence[Measurer],
    started_at: str,
    finished_at: str,
    parity: Parity | None = None,
) -> Result:
    """The result of a case, failed or not. Repeats that finished before a failure are measured like any others."""
    repeats = tuple(repeats)
    records = [record for repeat in repeats for record in repeat.records]
    metrics: tuple[Metric, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    if plan is not None and repeats:
        measured = Measured(
            repeats=repeats,
            unit=plan.workload.unit,
            batch_size=spec.batch_size,
            devices=spec.topology.devices,
            device=plan.device,
            precision=spec.precision,
            flops_per_sample=plan.workload.flops_per_sample,
        )
        metrics, broken = _measured(measurers, measured)
        notes = (*notes, *broken)
        verdicts = judge(
            repeats,
            Expected(
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
            ),
            parity,
        )
    return Result(
        id=run_id,
        status="ok" if failure is None else failure.kind,
        failure=failure,
        spec=spec,
        facts=facts_of(spec, plan, records),
        metrics=metrics,
        verdicts=verdicts,
        repeats=repeats,
        stopping=stopping,
        environment=environment,
        hardware=tuple(hardware),
        workload=None if plan is None else plan.workload,
        notes=tuple(notes),
        started_at=started_at,
        finished_at=finished_at,
        sdk_version=dlperf_sdk.__version__,
        parity=parity,
    )


def _measured(
    measurers: Sequence[Measurer], measured: Measured
) -> tuple[tuple[Metric, ...], tuple[str, ...]]:
    """All metrics, and a note for each measurer that failed: a plugin's mistake must not cost what was measured."""
    metrics: list[Metric] = []
    notes: list[str] = []
    for measurer in measurers:
        try:
            metrics += measurer.summarise(measured)
        except Exception as error:
            notes.append(
                f"The measurer {measurer.name} failed, its metrics are missing: {type(error).__name__}: {error}"
            )
    return tuple(metrics), tuple(notes)
