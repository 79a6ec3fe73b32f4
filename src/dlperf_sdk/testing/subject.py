"""The framework under test: what an author sets, and the runs that the tests share."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import attrs
import pytest

from dlperf_sdk.api import dry_run
from dlperf_sdk.errors import DlperfError, RunFailed, Unavailable
from dlperf_sdk.execution.case import Case
from dlperf_sdk.harness.in_process import SMALL
from dlperf_sdk.hookspecs import Observers
from dlperf_sdk.interfaces.framework import Framework
from dlperf_sdk.parity.evidence import REFERENCE_CASE
from dlperf_sdk.parity.reference import load
from dlperf_sdk.planning.plan import make_plan
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.records import Failure
from dlperf_sdk.results.result import FAIL, INTEGRITY, Parity, Result, Verdict
from dlperf_sdk.spec.compiler import NONE
from dlperf_sdk.spec.data_source import DATA_SOURCES
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.spec.values import Scalar
from dlperf_sdk.testing import cells
from dlperf_sdk.testing.cells import Cell
from dlperf_sdk.testing.conformance import Conformance, advice
from dlperf_sdk.testing.starts import Answer, ask, check_case
from dlperf_sdk.worker.interface import Unsupported
from dlperf_sdk.worker.processes import SERVICE

UNSUPPORTED = f"{Unsupported.__module__}.{Unsupported.__qualname__}: "
"""End of an answer's traceback where a worker says that its machine cannot do what was asked."""
COMPILED = "tiny"
"""The case of a reference that compiled cells are held to, where there is one: the network and the batch are those that
they train, if nobody chose others. A compiler takes up to a minute for each, and what it has made for the run serves
here. All other cells are held to what ordinary runs are."""
TO_BE_FILLED_IN = "FILL IN"
"""Mark of the gaps in the skeleton of `dlperf new-plugin`."""
_RAISED = re.compile(f"NotImplementedError: ({TO_BE_FILLED_IN}.*)")


class FrameworkSubject(Conformance):
    """A framework's plugin, and short real runs of it: each is made once per class, by whoever asks first."""

    framework: ClassVar[str]
    """The name that users type."""
    models: ClassVar[tuple[str, ...] | None] = None
    """The models to try, the cheapest first: compilers, precisions and strategies are tried with the first that the
    plugin does not refuse. Those that it implements and that are installed, unless given."""
    model_options: ClassVar[Mapping[str, Mapping[str, Scalar]]] = {}
    """Model → the options that make it small; `SMALL` has those of dlperf-sdk's own models."""
    options: ClassVar[Mapping[str, Scalar]] = {}
    """Options of the framework's plugin."""
    batch_size: ClassVar[int] = 4
    """Samples per device. On a GPU, choose enough that a step takes the device longer than the host."""
    device: ClassVar[str] = "auto"
    """The kind of device to try."""
    python: ClassVar[str | None] = None
    """The interpreter of an existing environment; the plugin's managed environment, unless given."""
    registry: ClassVar[Registry] = Registry()
    """Registry of the plugin and its models: what is installed, unless given."""

    _cells: ClassVar[set[str]]
    """Cases of which everything is asked, in one start."""
    _results: ClassVar[dict[str, Result]]
    _answers: ClassVar[dict[str, tuple[Answer, ...]]]
    _parities: ClassVar[dict[str, Parity]]
    _unsupported: ClassVar[dict[str, Failure]]
    """Cases that a worker has said this machine cannot do: nothing else is started for them."""
    _unfinished: ClassVar[dict[tuple[str, str], str]]
    """Missing parts of the worker by what was started and the model: no other case of it gets any further."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        cls._results, cls._answers, cls._parities, cls._unfinished = {}, {}, {}, {}
        cls._unsupported, cls._cells = {}, set()

    @property
    def plugin(self) -> Framework:
        """The controller half; raises PluginError."""
        return self.registry.framework(self.framework)

    def models_to_test(self) -> tuple[str, ...]:
        """Return the names of the models to test.

        Raises:
            PluginError: the plugin, or an installed model, cannot be loaded.
        """
        if self.models is not None:
            return self.models
        plugin, installed = self.plugin, self.registry.names("models")
        known = {name for name in installed if name in plugin.trainers}
        known |= {name for name in installed if self.framework in self.registry.model(name).trainers}
        return tuple(sorted(known))

    def axes(self) -> Mapping[str, Sequence[Any]]:
        """Return models, the plugin's declared values, and the cells of its matrix (`dlperf_sdk.testing.cells`)."""
        names = ("model", "compiler", "layout", "source", "cell", "pair", "any_cell")
        try:
            capabilities, models = self.plugin.capabilities, self.models_to_test()
        except DlperfError:
            return dict.fromkeys(names, ())  # `test_the_plugin_loads` says why
        return {
            "model": models,
            "compiler": sorted(capabilities.compilers - {NONE}),
            "layout": sorted(capabilities.layouts - {"auto"}),
            "source": sorted(
                capabilities.data - {DATA_SOURCES.default}
            ),  # which every other test is fed with
            "cell": cells.list_single_replica_cells(models, capabilities),
            "pair": cells.list_pair_cells(models, capabilities),
            "any_cell": (
                *cells.list_single_replica_cells(models, capabilities),
                *cells.list_pair_cells(models, capabilities),
            ),
        }

    def combinations(self) -> frozenset[Cell]:
        """Return the cells whose values other cells have as well."""
        all_cells = frozenset(self.axes()["any_cell"])
        return all_cells - cells.select_covering(self.axes()["any_cell"])

    def spec(self, model: str, **fields: Any) -> RunSpec:
        """Return a short case of a model, whose workers have one thread each; `fields` are those of `RunSpec`."""
        options = {**(self.model_options.get(model) or SMALL.get(model, {})), **self.options}
        short = {"warmup": 1, "steps": 3, "repeats": 1, "on_busy": "note"}
        settings = {"batch_size": self.batch_size, "device": self.device, "python": self.python}
        fields = {**short, **settings, **fields, "options": {**options, **fields.get("options", {})}}
        spec = RunSpec(framework=self.framework, model=model, **fields)
        return attrs.evolve(spec, env={**self._one_thread(spec), **spec.env})

    def _one_thread(self, spec: RunSpec) -> Mapping[str, str]:
        """Return the variables that give workers one thread; empty if the plugin's processes set their own number.

        Compilers generate different code for another number of threads, and one compilation serves all programs.
        """
        try:
            processes = make_plan(spec, self.registry).placeholder_processes()
        except DlperfError:  # whoever asks for the case will say why
            processes = []
        single_thread = {"OMP_NUM_THREADS": "1"}
        return (
            {}
            if any(single_thread.keys() & process.variables.keys() for process in processes)
            else single_thread
        )

    def refusal(self, spec: RunSpec) -> RunFailed | None:
        """Return the error with which the plan refuses a case; None if it accepts it."""
        try:
            dry_run(spec, registry=self.registry)
        except RunFailed as error:
            return error
        return None

    def select_accepted_spec(self, models: Sequence[str] | None = None, **fields: Any) -> RunSpec:
        """Return the case with the first model that the plugin accepts it for; skip if it refuses all."""
        refused = None
        for model in models or self.models_to_test():
            spec = self.spec(model, **fields)
            refused = self.refusal(spec)
            if refused is None:
                return spec
        pytest.skip(f"refused: {refused}" if refused else "there is no model to try")

    def spec_of(self, cell: Cell) -> RunSpec:
        """Return the case of a cell, with the first of its models that the plugin accepts; or skip.

        The plainest case of a model is nothing that may be refused: a plugin that names the model must run it.
        """
        spec = (
            self.spec(cell.models[0])
            if cell.is_plain
            else self.select_accepted_spec(cell.models, **cell.fields)
        )
        self._cells.add(_key(spec))
        return spec

    def result_of(self, spec: RunSpec) -> Result:
        """Return the result of a case: run once, kept for all tests of the class.

        Skips what this machine cannot place.

        The start of a cell serves `answers_of` and `parity_of` as well. Where it fails, each of the three has its own
        start, so that each test shows its own failure.
        """
        key = _key(spec)
        if key not in self._results:
            result = (self._start_once(spec) if key in self._cells else None) or self.run_case(spec)
            self._results[key] = result
            if result.failure is not None and result.failure.kind == "unsupported":
                self._unsupported[key] = result.failure
        return self._results[key]

    def _start_once(self, spec: RunSpec) -> Result | None:
        """Return the result of a case from the start that also answers and follows the reference.

        None where that start failed for a reason that may be one of the three alone, and where there are services,
        which keep the state of one trainer.
        """
        self._skip_unfinished("run", spec)
        case = self._begin_case(spec, ())
        if case.plan is None or any(process.role == SERVICE for process in case.plan.placeholder_processes()):
            return None
        name = reference_case(self.registry.model(spec.model).references, spec.compiler)
        result, answers, parity = check_case(case, case.plan, name)
        if result.failure is not None:
            return result if result.status == "unsupported" else None
        if answers and not any(answer.failed for answer in answers):
            self._answers[_key(spec)] = answers
        if parity is not None and parity.outcome != FAIL:
            self._parities[_key(spec)] = parity
        return result

    def run_case(self, spec: RunSpec, observers: Sequence[Any] = ()) -> Result:
        """Return the result of a case as `run` does, but without parity, which has its own tests."""
        self._skip_unfinished("run", spec)
        case = self._begin_case(spec, observers)
        case.prepare(reference_case=None)
        case.measure()
        result = case.conclude()
        self._note_unfinished("run", spec, result.failure.traceback if result.failure else None)
        return result

    def parity_of(self, spec: RunSpec) -> Parity:
        """Return the parity of a case, kept for all tests of the class."""
        key = _key(spec)
        if key in self._cells:
            self.result_of(spec)
        if key not in self._parities:
            self.skip_if_unfinished(self._unsupported.get(key))
            self._skip_unfinished("parity", spec)
            case = self._begin_case(spec, ())
            references = self.registry.model(spec.model).references
            case.prepare(reference_case=reference_case(references, spec.compiler))
            if case.parity is None:
                self.skip_if_unfinished(case.failure)
                pytest.fail(f"{describe(spec)} could not be prepared: {case.failure}")
            self._parities[key] = case.parity
            self._note_unfinished("parity", spec, case.parity.traceback)
        return self._parities[key]

    def _begin_case(self, spec: RunSpec, observers: Sequence[Any]) -> Case:
        refused = self.refusal(spec)
        if isinstance(refused, Unavailable):
            pytest.skip(f"not on this machine: {refused}")
        return Case.begin(spec, None, Observers.load(observers), self.registry)

    def answers_of(self, spec: RunSpec) -> tuple[Answer, ...]:
        """Return the trainers' answers to the step-by-step checks, by rank; run once per case and test class.

        If the workers did not start, one answer holds the error. The test is skipped where this machine cannot run
        the case, or the plugin is not finished.
        """
        refused = self.refusal(spec)
        if isinstance(refused, Unavailable):
            pytest.skip(f"not on this machine: {refused}")
        key = _key(spec)
        if key in self._cells:
            self.result_of(spec)
        if key not in self._answers:
            self.skip_if_unfinished(self._unsupported.get(key))
            self._skip_unfinished("answers", spec)
            self._answers[key] = ask(spec, self.registry)
            for answer in self._answers[key]:
                self._note_unfinished("answers", spec, answer.failed)
        return self._answers[key]

    def skip_if_unfinished(self, failed: Failure | str | None) -> None:
        """Skip the test if a failure, or its traceback, shows that a worker reached code that is still to be filled in.

        Skip it as well if the worker says that this machine cannot do it, such as a processor without 16-bit products
        (never the plainest case).
        """
        if isinstance(failed, Failure) and failed.kind == "unsupported":
            pytest.skip(f"not on this machine: {failed.message}")
        traceback = failed.traceback if isinstance(failed, Failure) else failed
        if traceback and UNSUPPORTED in traceback:
            pytest.skip(
                f"not on this machine: {traceback[traceback.rindex(UNSUPPORTED) + len(UNSUPPORTED) :].strip()}"
            )
        missing = _RAISED.search(traceback or "")
        if missing:
            self._skip_for(missing[1])

    def _note_unfinished(self, started: str, spec: RunSpec, traceback: str | None) -> None:
        """Record what the model's plainest case has yet to implement: all other cases lack it as well."""
        missing = _RAISED.search(traceback or "")
        if missing and spec == self.spec(spec.model):
            self._unfinished[started, spec.model] = missing[1]

    def _skip_unfinished(self, started: str, spec: RunSpec) -> None:
        if (started, spec.model) in self._unfinished:
            self._skip_for(self._unfinished[started, spec.model])

    def _skip_for(self, missing: str) -> NoReturn:
        pytest.skip(f"{missing}; `test_nothing_is_left_to_fill_in` lists what is left")

    def require_valid_result(self, spec: RunSpec) -> Result:
        """Return the result of a case that must succeed, with every available integrity verdict."""
        result = self.result_of(spec)
        self.skip_if_unfinished(result.failure)
        assert result.failure is None, advice(
            f"{describe(spec)} ended with {result.status}: {result.failure and result.failure.message}",
            "a plugin that declares this must be able to train with it",
            "read the traceback below and mend the worker half, or take it out of `capabilities` (or refuse the "
            f"combination in `explain_refusal`)\n{(result.failure and result.failure.traceback) or ''}",
        )
        failed = [
            verdict for verdict in result.verdicts if verdict.kind == INTEGRITY and verdict.outcome == FAIL
        ]
        assert not failed, advice(
            f"{describe(spec)} ran, and its number is not true: "
            + "; ".join(f"{verdict.name}: {verdict.detail}" for verdict in failed),
            "such a result is marked as failed, and nobody can publish it",
            "see what each verdict found; `dlperf run` with the same case shows the whole report",
        )
        return result


def _key(spec: RunSpec) -> str:
    return json.dumps(spec.to_dict(), sort_keys=True)


def reference_case(references: Path | None, compiler: str) -> str:
    """Return the name of the case of a model's reference for parity with this compiler; `references` is its file."""
    compiled = compiler != NONE and references is not None and COMPILED in load(references).cases
    return COMPILED if compiled else REFERENCE_CASE


def verdict(result: Result, name: str) -> Verdict:
    """Return the verdict of that name, which the result must have."""
    return next(verdict for verdict in result.verdicts if verdict.name == name)


def describe(spec: RunSpec) -> str:
    """Describe a case in a line: its differences from the plainest one."""
    plain = RunSpec(framework=spec.framework, model=spec.model)
    names = ("topology", "precision", "compiler", "strategy", "layout", "data", "accumulation")
    parts = [f"{name} {getattr(spec, name)}" for name in names if getattr(spec, name) != getattr(plain, name)]
    return " ".join([spec.framework, spec.model, *(f"with {', '.join(parts)}" for _ in parts[:1])])
