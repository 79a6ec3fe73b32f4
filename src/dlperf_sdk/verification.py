"""Several frameworks, one model: each from the same weights on the same batch, held against the model's reference."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from attrs import frozen

from dlperf_sdk import environments
from dlperf_sdk.errors import DlperfError, UsageError
from dlperf_sdk.execute import launched
from dlperf_sdk.parity.compare import Comparison, expected
from dlperf_sdk.parity.evidence import CASE, evidence
from dlperf_sdk.parity.reference import load
from dlperf_sdk.plan import make_plan
from dlperf_sdk.registry import Registry
from dlperf_sdk.results.convert import to_plain
from dlperf_sdk.results.result import FAIL, NOT_APPLICABLE, PASS, Parity
from dlperf_sdk.spec import RunSpec

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
    case: str = CASE,
    registry: Registry | None = None,
    on_progress: Say = lambda text: None,
    **fields: Any,
) -> tuple[Verification, ...]:
    """Run each framework's first steps, and hold them against the reference; nothing is taken from the cache.

        verify(["torch", "tensorflow"], "resnet50", topology="1n2d")

    Args:
        frameworks: Their names. One that is not installed, or does not work, is a row with its reason.
        model: The model's name; all that have a reference, unless given.
        case: The case of the reference: `small`, and what else it holds.
        registry: The plugins to choose from; those that are installed, unless given.
        on_progress: Told in lines of text what is going on.
        fields: Fields of `RunSpec`: `topology`, `precision`, `compiler`, `device`, `python`, …

    Raises:
        UsageError: the model, a field, or the case cannot be understood; or no framework is named.
        KeyboardInterrupt: somebody pressed Ctrl-C; everything has been ended.
    """
    registry = registry or Registry()
    if not frameworks:
        raise UsageError("Which frameworks? Name one or more, for example `dlperf verify torch`.")
    if "options" in fields:
        raise UsageError("The reference's case sets the model's options; leave options out.")
    chosen = [model] if model is not None else _with_references(registry)
    found = tuple(
        _verified(frameworks, name, case, registry, on_progress, fields, asked=model is not None)
        for name in chosen
        if model is not None or case in _cases(name, registry)
    )
    # Models that none of them implements are of no interest, unless they were asked for.
    return tuple(one for one in found if any(row.outcome != NOT_APPLICABLE for row in one.rows)) or found


def _with_references(registry: Registry) -> list[str]:
    return [name for name in registry.names("models") if _cases(name, registry)]


def _cases(model: str, registry: Registry) -> tuple[str, ...]:
    """The names of a model's cases; none where it has no reference that can be read."""
    try:
        path = registry.model(model).references
        return () if path is None else tuple(load(path).cases)
    except DlperfError:
        return ()


def _verified(
    frameworks: Sequence[str],
    model: str,
    case: str,
    registry: Registry,
    say: Say,
    fields: dict[str, Any],
    *,
    asked: bool,
) -> Verification:
    specs = [
        RunSpec(**{"framework": name, "model": model, "protocol": "quick", **fields}) for name in frameworks
    ]
    registry.model(model)
    rows = tuple(_row(spec, case, registry, say, asked=asked) for spec in specs)
    spec = specs[0]
    return Verification(
        model=model,
        case=case,
        topology=str(spec.topology),
        precision=spec.precision,
        compiler=spec.compiler,
        losses=_right(spec, case, registry),
        rows=rows,
    )


def _right(spec: RunSpec, case: str, registry: Registry) -> tuple[tuple[float, ...], ...]:
    """The reference's losses, per shard."""
    path = registry.model(spec.model).references
    if path is None or case not in _cases(spec.model, registry):
        return ()
    found = expected(load(path).cases[case], spec.strategy, spec.topology.devices)
    return () if isinstance(found, Comparison) else tuple(one.losses for one in found[:2])


def _row(spec: RunSpec, case: str, registry: Registry, say: Say, *, asked: bool) -> Row:
    """One framework's run, or why there is none."""
    name = spec.framework

    def tell(text: str) -> None:
        say(f"{name}, {spec.model}: {text}")

    try:
        framework = registry.framework(name)
        if not asked and registry.trainer(framework, registry.model(spec.model)) is None:
            return Row(
                name, Parity(outcome=NOT_APPLICABLE, detail=f"{name} does not implement it.", case=case)
            )
        plan = make_plan(spec, registry)
        prepared = environments.prepare(
            name, plan.environment, plan.device, python=spec.python, env=spec.env, on_progress=tell
        )
        with environments.in_use(prepared):
            found = evidence(
                plan,
                prepared,
                registry,
                lambda followed, request: launched(followed, request, registry),
                tell,
                case=case,
                kept=False,
            )
    except DlperfError as error:
        tell(f"not run: {error}")
        return Row(name, None, reason=str(error))
    tell(found.outcome)
    return Row(name, found, environment=f"{plan.plugin}, Python {prepared.python}")
