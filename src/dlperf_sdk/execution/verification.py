"""Compare the first steps of several frameworks with a model's reference: the command `dlperf verify`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import frozen

from dlperf_sdk import environments
from dlperf_sdk.errors import DlperfError, UnknownName, UsageError
from dlperf_sdk.execution.launch import launch
from dlperf_sdk.execution.prepare import prepare_own_environment
from dlperf_sdk.parity.compare import Comparison, expected_trajectories
from dlperf_sdk.parity.evidence import REFERENCE_CASE, ParityRun, follow_parity_run, plan_parity_run
from dlperf_sdk.parity.reference import load
from dlperf_sdk.planning.plan import Plan, make_plan
from dlperf_sdk.planning.secret_variables import list_requested_variables
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.convert import to_plain
from dlperf_sdk.results.result import FAIL, NOT_APPLICABLE, PASS, Parity
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.spec.secret_values import remove_secrets

OnProgress = Callable[[str], None]


@frozen
class Row:
    """The outcome of parity for one framework."""

    framework: str
    parity: Parity | None
    """The comparison with the reference; None if nothing could be run."""
    environment: str | None = None
    """The framework plugin's distribution and version, and the version of Python; None if nothing was run."""
    reason: str | None = None
    """The reason why nothing could be run; None otherwise."""

    @property
    def outcome(self) -> str:
        """The outcome of parity: `pass`, `fail`, `inconclusive` or `not-applicable`; `not-run` if nothing was run."""
        return "not-run" if self.parity is None else self.parity.outcome


@frozen
class Verification:
    """The comparison of some frameworks with one model's reference."""

    model: str
    case: str
    topology: str
    precision: str
    compiler: str
    losses: tuple[tuple[float, ...], ...]
    """The reference's float64 losses: for each canonical shard that replicas train on, the loss of each step. Empty
    without a reference for this strategy."""
    rows: tuple[Row, ...]
    """One row per framework, in the order in which they were named."""

    def to_dict(self) -> dict[str, Any]:
        """Return the verification as a dictionary of JSON values, with the names of its fields as keys.

        The value of `rows` is a list with an object per framework, in order. An object has the keys `framework`,
        `outcome`, `parity` (an object, or null if nothing was run), `environment` and `reason` (text or null).
        """
        rows = [{"outcome": row.outcome, **to_plain(row)} for row in self.rows]
        return {**to_plain(self), "rows": rows}


def exit_code(verifications: Iterable[Verification]) -> int:
    """Return the exit code of `dlperf verify` for some verifications. Rows that are `not-applicable` do not count.

    Returns:
        1 if any row failed. Otherwise 3 if no row passed, 0 if all rows passed, and 5 if only some passed.
    """
    rows = [row for verification in verifications for row in verification.rows]
    outcomes = [row.outcome for row in rows if row.outcome != NOT_APPLICABLE]
    if FAIL in outcomes:
        return 1
    passed = outcomes.count(PASS)
    if not passed:
        return 3
    return 0 if passed == len(outcomes) else 5


def verify(
    frameworks: Sequence[str],
    model: str | None = None,
    *,
    case: str = REFERENCE_CASE,
    registry: Registry | None = None,
    on_progress: OnProgress = lambda text: None,
    on_verified: Callable[[Verification], None] = lambda verification: None,
    **fields: Any,
) -> tuple[Verification, ...]:
    """Run the first steps of models in each framework, and compare them with the models' references.

    All steps are run anew, even if an earlier run has verified the same framework and model.

        verify(["torch", "tensorflow"], "resnet50", topology="1n2d")

    All runs are checked and planned before anything is prepared or started.

    Args:
        frameworks: Names of the frameworks; duplicates count once. A framework whose plugin does not work has a row
            that states the reason.
        model: The model's name; None for all models that have a reference with this case.
        case: Name of the settings in the models' references to compare with, such as `small`. A reference has the
            losses for several settings.
        registry: The plugins; None for the installed ones.
        on_progress: Called with one line of progress at a time.
        on_verified: Called with each model's verification as soon as it is complete; after Ctrl-C also with an
            incomplete one that has rows.
        fields: Fields of `RunSpec`: `topology`, `precision`, `compiler`, `device`, `python`, …

    Returns:
        One verification per model that any of the frameworks implements.

    Raises:
        UsageError: A framework, the model, the case, or a field is invalid; no framework is named; or the
            frameworks implement none of the models.
        PluginError: The model's or the launcher's plugin does not work.
        KeyboardInterrupt: Ctrl-C was pressed; all processes have ended.
    """
    registry = registry or Registry()
    if not frameworks:
        raise UsageError("The framework is missing. Name one or more, for example `dlperf verify torch`.")
    if "options" in fields:
        raise UsageError("The reference's case sets the model's options; leave options out.")
    frameworks = tuple(dict.fromkeys(frameworks))
    for name in frameworks:
        if not registry.has_plugin("frameworks", name):
            registry.load("frameworks", name)  # raises, and names what is installed
    if fields.get("python") is not None and fields.get("container") is None:
        environments.check_interpreter(fields["python"])
    works = [
        work
        for name in _models(model, case, registry)
        if (work := _plan_model(frameworks, name, case, registry, fields, required=model is not None))
        is not None
    ]
    if not works:
        raise UsageError(
            f"{' and '.join(frameworks)} implement none of the models whose references have the case {case!r}: "
            f"{', '.join(_models(model, case, registry))}."
        )
    return tuple(_verify_model(work, registry, on_progress, on_verified) for work in works)


def _models(model: str | None, case: str, registry: Registry) -> list[str]:
    """List the models whose references have the case."""
    if model is not None:
        cases = _cases(model, registry)
        if registry.model(model).references is None:
            raise UsageError(f"{model} ships no reference trajectories (Model.references) to compare with.")
        if cases and case not in cases:
            raise UnknownName(f"case of {model}'s reference", case, cases)
        return [model]
    cases_of = {name: _cases(name, registry) for name in registry.names("models")}
    models = [name for name, cases in cases_of.items() if case in cases]
    if not models:
        raise UnknownName(
            "case of a reference", case, {name for cases in cases_of.values() for name in cases}
        )
    return models


@frozen
class _Work:
    """One model: the plans to run, and the rows that need no run."""

    spec: RunSpec
    """The first framework's."""
    case: str
    plans: Mapping[str, Plan | Row]
    """By framework, in the order they were named."""


def _plan_model(
    frameworks: Sequence[str],
    model: str,
    case: str,
    registry: Registry,
    fields: dict[str, Any],
    *,
    required: bool,
) -> _Work | None:
    """Plan the runs of a model; return None if no framework implements it and it is not `required` by name."""
    specs = [
        RunSpec(**{"framework": name, "model": model, "protocol": "quick", **fields}) for name in frameworks
    ]
    registry.topology(specs[0].topology.launcher)
    plans = {spec.framework: _plan_or_row(spec, case, registry, required=required) for spec in specs}
    rows = [plan for plan in plans.values() if isinstance(plan, Row)]
    if len(rows) == len(plans) and all(row.outcome == NOT_APPLICABLE for row in rows):
        return None
    return _Work(specs[0], case, plans)


def _plan_or_row(spec: RunSpec, case: str, registry: Registry, *, required: bool) -> Plan | Row:
    name = spec.framework
    try:
        framework = registry.framework(name)
        if not required and registry.trainer(framework, registry.model(spec.model)) is None:
            return Row(
                name, Parity(outcome=NOT_APPLICABLE, detail=f"{name} does not implement it.", case=case)
            )
        return make_plan(spec, registry)
    except UsageError:
        raise
    except DlperfError as error:
        return Row(name, None, reason=str(error))


def _cases(model: str, registry: Registry) -> tuple[str, ...]:
    """List the cases of a model's reference; none where it has no reference that can be read."""
    try:
        path = registry.model(model).references
        return () if path is None else tuple(load(path).cases)
    except DlperfError:
        return ()


def _verify_model(
    work: _Work, registry: Registry, on_progress: OnProgress, on_verified: Callable[[Verification], None]
) -> Verification:
    rows: list[Row] = []
    try:
        for plan in work.plans.values():
            rows.append(plan if isinstance(plan, Row) else _row(plan, work.case, registry, on_progress))
    except KeyboardInterrupt:
        if rows:
            on_verified(_verification(work, rows, registry))
        raise
    verification = _verification(work, rows, registry)
    on_verified(verification)
    return verification


def _verification(work: _Work, rows: Sequence[Row], registry: Registry) -> Verification:
    spec = work.spec
    return Verification(
        model=spec.model,
        case=work.case,
        topology=str(spec.topology),
        precision=spec.precision,
        compiler=spec.compiler,
        losses=_reference_losses(spec, work.case, registry),
        rows=tuple(rows),
    )


def _reference_losses(spec: RunSpec, case: str, registry: Registry) -> tuple[tuple[float, ...], ...]:
    """Return the reference's losses, per shard."""
    path = registry.model(spec.model).references
    if path is None or case not in _cases(spec.model, registry):
        return ()
    shards = expected_trajectories(load(path).cases[case], spec.strategy, spec.topology.devices)
    return () if isinstance(shards, Comparison) else tuple(shard.losses for shard in shards[:2])


def _row(plan: Plan, case: str, registry: Registry, on_progress: OnProgress) -> Row:
    """Run one framework, and return its row."""
    spec = plan.spec
    name = spec.framework

    def report(text: str) -> None:
        on_progress(f"{name}, {spec.model}: {text}")

    try:
        prepared = prepare_own_environment(plan, report)
        variables = list_requested_variables(spec)
        with environments.use_environment(prepared):
            parity = plan_parity_run(
                plan, prepared, variables, registry, report, reference_case=case, use_cache=False
            )
            if isinstance(parity, ParityRun):
                parity = follow_parity_run(parity, launch(parity.plan, parity.request, registry))
    except DlperfError as error:
        reason = remove_secrets(str(error))
        report(f"not run: {reason}")
        return Row(name, None, reason=reason)
    report(parity.outcome)
    return Row(name, parity, environment=f"{plan.plugin}, Python {prepared.python}")
