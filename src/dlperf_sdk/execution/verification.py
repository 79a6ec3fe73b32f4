"""Several frameworks, one model: each from the same weights on the same batch, held against the model's reference."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import frozen

from dlperf_sdk import environments
from dlperf_sdk.errors import DlperfError, UnknownName, UsageError
from dlperf_sdk.execution.launch import launch
from dlperf_sdk.execution.prepare import prepare_own_environment, requested_variables
from dlperf_sdk.parity.compare import Comparison, expected
from dlperf_sdk.parity.evidence import REFERENCE_CASE, ParityRun, follow_parity_run, plan_parity_run
from dlperf_sdk.parity.reference import load
from dlperf_sdk.planning.plan import Plan, make_plan
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.convert import to_plain
from dlperf_sdk.results.result import FAIL, NOT_APPLICABLE, PASS, Parity
from dlperf_sdk.spec.run_spec import RunSpec

Say = Callable[[str], None]


@frozen
class Row:
    """One framework."""

    framework: str
    parity: Parity | None
    """None where nothing could be run."""
    environment: str | None = None
    """The framework plugin's distribution and version, and the version of Python."""
    reason: str | None = None
    """Why nothing could be run."""

    @property
    def outcome(self) -> str:
        """`pass`, `fail`, `inconclusive`, `not-applicable`, or `not-run`."""
        return "not-run" if self.parity is None else self.parity.outcome


@frozen
class Verification:
    """What came of holding some frameworks to one model's reference."""

    model: str
    case: str
    topology: str
    precision: str
    compiler: str
    losses: tuple[tuple[float, ...], ...]
    """The reference: of each canonical shard that is trained on, the loss of each step in float64."""
    rows: tuple[Row, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        rows = [{"outcome": row.outcome, **to_plain(row)} for row in self.rows]
        return {**to_plain(self), "rows": rows}


def exit_code(found: Iterable[Verification]) -> int:
    """0 if all that applies passed; 1 if one failed; 3 if nothing, 5 if not everything could be judged."""
    outcomes = [row.outcome for one in found for row in one.rows if row.outcome != NOT_APPLICABLE]
    if FAIL in outcomes:
        return 1
    judged = outcomes.count(PASS)
    if not judged:
        return 3
    return 0 if judged == len(outcomes) else 5


def verify(
    frameworks: Sequence[str],
    model: str | None = None,
    *,
    case: str = REFERENCE_CASE,
    registry: Registry | None = None,
    on_progress: Say = lambda text: None,
    on_verified: Callable[[Verification], None] = lambda found: None,
    **fields: Any,
) -> tuple[Verification, ...]:
    """Run each framework's first steps, and hold them against the reference; nothing is taken from the cache.

        verify(["torch", "tensorflow"], "resnet50", topology="1n2d")

    All that is asked is understood and planned before anything is made or started.

    Args:
        frameworks: Their names; one that is named twice counts once. One that does not work is a row with its reason.
        model: The model's name; all that have a reference with this case, unless given.
        case: The case of the reference: `small`, and what else it holds.
        registry: The plugins to choose from; those that are installed, unless given.
        on_progress: Told in lines of text what is going on.
        on_verified: Given each model's verification as soon as it is complete; one that is interrupted with the rows
            that it has.
        fields: Fields of `RunSpec`: `topology`, `precision`, `compiler`, `device`, `python`, …

    Raises:
        UsageError: a framework, the model, the case, or a field cannot be understood; or no framework is named.
        KeyboardInterrupt: somebody pressed Ctrl-C; everything has been ended.
    """
    registry = registry or Registry()
    if not frameworks:
        raise UsageError("Which frameworks? Name one or more, for example `dlperf verify torch`.")
    if "options" in fields:
        raise UsageError("The reference's case sets the model's options; leave options out.")
    frameworks = tuple(dict.fromkeys(frameworks))
    for name in frameworks:
        if name not in registry.names("frameworks"):
            registry.load("frameworks", name)  # says so, and what is installed
    if fields.get("python") is not None and fields.get("container") is None:
        environments.must_be_there(fields["python"])
    works = [
        work
        for name in _chosen(model, case, registry)
        if (work := _planned(frameworks, name, case, registry, fields, asked=model is not None)) is not None
    ]
    if not works:
        raise UsageError(
            f"{' and '.join(frameworks)} implement none of the models whose references have the case {case!r}: "
            f"{', '.join(_chosen(model, case, registry))}."
        )
    return tuple(_verified(work, registry, on_progress, on_verified) for work in works)


def _chosen(model: str | None, case: str, registry: Registry) -> list[str]:
    """The models whose references have the case."""
    if model is not None:
        cases = _cases(model, registry)
        if registry.model(model).references is None:
            raise UsageError(f"{model} ships no reference trajectories (Model.references) to be held to.")
        if cases and case not in cases:
            raise UnknownName(f"case of {model}'s reference", case, cases)
        return [model]
    of_models = {name: _cases(name, registry) for name in registry.names("models")}
    found = [name for name, cases in of_models.items() if case in cases]
    if not found:
        raise UnknownName("case of a reference", case, {one for cases in of_models.values() for one in cases})
    return found


@frozen
class _Work:
    """One model: what there is to be run, and the rows that need no run."""

    spec: RunSpec
    """The first framework's."""
    case: str
    plans: Mapping[str, Plan | Row]
    """By framework, in the order they were named."""


def _planned(
    frameworks: Sequence[str],
    model: str,
    case: str,
    registry: Registry,
    fields: dict[str, Any],
    *,
    asked: bool,
) -> _Work | None:
    """What is to be done for a model; None where none of them implements it, and nobody asked for it by name."""
    specs = [
        RunSpec(**{"framework": name, "model": model, "protocol": "quick", **fields}) for name in frameworks
    ]
    registry.topology(specs[0].topology.launcher)
    plans = {spec.framework: _plan_or_row(spec, case, registry, asked=asked) for spec in specs}
    rows = [one for one in plans.values() if isinstance(one, Row)]
    if len(rows) == len(plans) and all(row.outcome == NOT_APPLICABLE for row in rows):
        return None
    return _Work(specs[0], case, plans)


def _plan_or_row(spec: RunSpec, case: str, registry: Registry, *, asked: bool) -> Plan | Row:
    name = spec.framework
    try:
        framework = registry.framework(name)
        if not asked and registry.trainer(framework, registry.model(spec.model)) is None:
            return Row(
                name, Parity(outcome=NOT_APPLICABLE, detail=f"{name} does not implement it.", case=case)
            )
        return make_plan(spec, registry)
    except UsageError:
        raise
    except DlperfError as error:
        return Row(name, None, reason=str(error))


def _cases(model: str, registry: Registry) -> tuple[str, ...]:
    """The names of a model's cases; none where it has no reference that can be read."""
    try:
        path = registry.model(model).references
        return () if path is None else tuple(load(path).cases)
    except DlperfError:
        return ()


def _verified(
    work: _Work, registry: Registry, say: Say, on_verified: Callable[[Verification], None]
) -> Verification:
    rows: list[Row] = []
    try:
        for one in work.plans.values():
            rows.append(one if isinstance(one, Row) else _row(one, work.case, registry, say))
    except KeyboardInterrupt:
        if rows:
            on_verified(_verification(work, rows, registry))
        raise
    found = _verification(work, rows, registry)
    on_verified(found)
    return found


def _verification(work: _Work, rows: Sequence[Row], registry: Registry) -> Verification:
    spec = work.spec
    return Verification(
        model=spec.model,
        case=work.case,
        topology=str(spec.topology),
        precision=spec.precision,
        compiler=spec.compiler,
        losses=_right(spec, work.case, registry),
        rows=tuple(rows),
    )


def _right(spec: RunSpec, case: str, registry: Registry) -> tuple[tuple[float, ...], ...]:
    """The reference's losses, per shard."""
    path = registry.model(spec.model).references
    if path is None or case not in _cases(spec.model, registry):
        return ()
    found = expected(load(path).cases[case], spec.strategy, spec.topology.devices)
    return () if isinstance(found, Comparison) else tuple(one.losses for one in found[:2])


def _row(plan: Plan, case: str, registry: Registry, say: Say) -> Row:
    """One framework's run, or why there is none."""
    spec = plan.spec
    name = spec.framework

    def tell(text: str) -> None:
        say(f"{name}, {spec.model}: {text}")

    try:
        prepared = prepare_own_environment(plan, tell)
        variables = requested_variables(spec)
        with environments.in_use(prepared):
            found = plan_parity_run(
                plan, prepared, variables, registry, tell, reference_case=case, use_cache=False
            )
            if isinstance(found, ParityRun):
                found = follow_parity_run(found, launch(found.plan, found.request, registry))
    except DlperfError as error:
        tell(f"not run: {error}")
        return Row(name, None, reason=str(error))
    tell(found.outcome)
    return Row(name, found, environment=f"{plan.plugin}, Python {prepared.python}")
