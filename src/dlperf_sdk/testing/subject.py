"""The framework under test, and the runs that the tests share."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, ClassVar, NoReturn

import pytest

from dlperf_sdk.errors import Unavailable
from dlperf_sdk.execution.case import Case
from dlperf_sdk.hookspecs import Observers
from dlperf_sdk.parity.evidence import REFERENCE_CASE
from dlperf_sdk.parity.reference import load
from dlperf_sdk.results.records import Failure
from dlperf_sdk.results.result import FAIL, INTEGRITY, Parity, Result, Verdict
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.testing.cells import Cell
from dlperf_sdk.testing.conformance import advice
from dlperf_sdk.testing.framework_choice import FrameworkChoice
from dlperf_sdk.testing.starts import Answer, ask, check_case
from dlperf_sdk.worker.processes import SERVICE
from dlperf_sdk.worker.unsupported import Unsupported

UNSUPPORTED = f"{Unsupported.__module__}.{Unsupported.__qualname__}: "
"""Text before the message, in a traceback of a worker that raised `Unsupported`."""
TINY = "tiny"
"""The case of a model's reference that all but the model's plainest case are compared with, if the reference has it.

The suite trains the same small network on a batch of the same size, so that what a compiler made for the run serves
the parity run as well: compiling takes up to a minute. The plainest case is compared with the case of ordinary runs.
"""
TO_BE_FILLED_IN = "FILL IN"
"""Begin of the messages of NotImplementedError in the gaps that `dlperf new-plugin` leaves in a plugin."""
_RAISED = re.compile(f"NotImplementedError: ({TO_BE_FILLED_IN}.*)")


class FrameworkSubject(FrameworkChoice):
    """A framework plugin under test, and short real runs of it.

    The first test that needs a run makes it; others reuse it. A test is skipped where its case cannot run: the
    plugin refuses the case, this machine lacks what the case needs, or the worker half has a gap that is still to
    be filled in. The plainest case of each model (fp32, one device, no compiler) must not be refused.
    """

    _cells: ClassVar[set[str]]
    """Keys of the cases of cells: one start runs them, asks their trainers and does parity."""
    _results: ClassVar[dict[str, Result]]
    _answers: ClassVar[dict[str, tuple[Answer, ...]]]
    _parities: ClassVar[dict[str, Parity]]
    _unsupported: ClassVar[dict[str, Failure]]
    """Failures of the cases that a worker refused on this machine: nothing else is started for these cases."""
    _unfinished: ClassVar[dict[tuple[str, str], str]]
    """(Kind of start, model) → the gap that the plainest case ran into: all other cases of the model are skipped for
    it."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        cls._results, cls._answers, cls._parities, cls._unfinished = {}, {}, {}, {}
        cls._unsupported, cls._cells = {}, set()

    def spec_of(self, cell: Cell) -> RunSpec:
        """Return the case of a cell, with the first of the cell's models for which planning accepts the case.

        `cell` is a combination of settings. The test is skipped if planning accepts the case for no model. The case of
        a plain cell (`Cell.is_plain`) is returned without planning: a plugin that implements the model must accept it.

        Raises:
            DlperfError: The case is invalid, or a plugin cannot be loaded.
        """
        spec = (
            self.spec(cell.models[0])
            if cell.is_plain
            else self.select_accepted_spec(cell.models, **cell.fields)
        )
        self._cells.add(_key(spec))
        return spec

    def result_of(self, spec: RunSpec) -> Result:
        """Return the result of a case. A case that failed has a result, too.

        The first call runs the case. Later calls, also from other tests of the class, return the same result. If
        `spec_of` returned the case, one start of the workers gives the result and also what `answers_of` and
        `parity_of` return. If that start fails, each of these three methods starts the workers anew, so that each test
        shows its own failure.

        Skips the test if this machine lacks what the case needs, or if the model's plainest case (fp32, one device, no
        compiler) has already failed because a method of the worker half is yet to be written.

        Raises:
            DlperfError: The case is invalid, or a plugin cannot be loaded.
        """
        key = _key(spec)
        if key not in self._results:
            result = (self._start_once(spec) if key in self._cells else None) or self.run_case(spec)
            self._results[key] = result
            if result.failure is not None and result.failure.kind == "unsupported":
                self._unsupported[key] = result.failure
        return self._results[key]

    def _start_once(self, spec: RunSpec) -> Result | None:
        """Start the workers once for a run, the suite's questions and parity, and return the result of the run.

        Return None if that start failed, because the failure may belong to one of the three alone. Return None also for
        a case with services, because a service keeps the state of one trainer.
        """
        self._skip_unfinished("run", spec)
        case = self._begin_case(spec, ())
        if case.plan is None or any(process.role == SERVICE for process in case.plan.placeholder_processes()):
            return None
        result, answers, parity = check_case(case, case.plan, self.reference_case(spec))
        if result.failure is not None:
            return result if result.status == "unsupported" else None
        if answers and not any(answer.failed for answer in answers):
            self._answers[_key(spec)] = answers
        if parity is not None and parity.outcome != FAIL:
            self._parities[_key(spec)] = parity
        return result

    def run_case(self, spec: RunSpec, observers: Sequence[Any] = ()) -> Result:
        """Run a case without its parity run, and return the result. A case that failed has a result, too.

        Each call runs the case; `result_of` does not return this result. Skips the test if this machine lacks what the
        case needs, or if the model's plainest case (fp32, one device, no compiler) has already failed because a method
        of the worker half is yet to be written.

        Args:
            spec: The case.
            observers: Further observers to register for the run.

        Raises:
            DlperfError: The case is invalid, or a plugin cannot be loaded.
        """
        self._skip_unfinished("run", spec)
        case = self._begin_case(spec, observers)
        case.prepare()
        case.measure()
        result = case.conclude()
        self._note_unfinished("run", spec, result.failure.traceback if result.failure else None)
        return result

    def parity_of(self, spec: RunSpec) -> Parity:
        """Return the parity of a case. The case is run once, and all tests of the class share the parity.

        Skips the test if this machine cannot run the case, if a worker refuses it, or if it needs a method of the
        plugin that is yet to be written. Fails the test if the case cannot be prepared.

        Raises:
            DlperfError: The case is invalid, or a plugin cannot be loaded.
        """
        key = _key(spec)
        if key in self._cells:
            self.result_of(spec)
        if key not in self._parities:
            self.skip_if_unfinished(self._unsupported.get(key))
            self._skip_unfinished("parity", spec)
            case = self._begin_case(spec, ())
            case.prepare()
            case.check_parity(self.reference_case(spec))
            if case.parity is None:
                self.skip_if_unfinished(case.failure)
                pytest.fail(f"{describe(spec)} could not be prepared: {case.failure}")
            self._parities[key] = case.parity
            self._note_unfinished("parity", spec, case.parity.traceback)
        return self._parities[key]

    def reference_case(self, spec: RunSpec) -> str:
        """Return the name of the case in the model's reference that a run of `spec` is compared with.

        It is `tiny` if the reference has a case of that name and `spec` is not the model's plainest case (fp32, one
        device, no compiler), else `small`.
        """
        references = self.registry.model(spec.model).references
        has_tiny = references is not None and TINY in load(references).cases
        return TINY if has_tiny and spec != self.spec(spec.model) else REFERENCE_CASE

    def _begin_case(self, spec: RunSpec, observers: Sequence[Any]) -> Case:
        refused = self.refusal(spec)
        if isinstance(refused, Unavailable):
            pytest.skip(f"not on this machine: {refused}")
        return Case.begin(spec, None, Observers.load(observers), self.registry)

    def answers_of(self, spec: RunSpec) -> tuple[Answer, ...]:
        """Return the trainers' answers to the suite's questions, in the order of the ranks.

        The case is run once, and all tests of the class share the answers. If the workers did not start, one answer
        holds the error. Skips the test if this machine cannot run the case, if a worker refuses it, or if it needs a
        method of the plugin that is yet to be written.

        Raises:
            DlperfError: The case is invalid, or a plugin cannot be loaded.
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
        """Skip the running test if a worker raised `Unsupported`, or the plugin has a method that is yet to be written.

        `dlperf new-plugin` lets such a method raise a NotImplementedError, whose text this function recognizes. For any
        other failure, the function returns.

        Args:
            failed: The failure, or its traceback; None if nothing failed.
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
        """Return the result of a case; the test fails if the run or one of its integrity verdicts failed.

        Inconclusive verdicts, and verdicts that do not apply, are accepted. Skips the test if this machine cannot run
        the case, if a worker refuses it, or if it needs a method of the plugin that is yet to be written.

        Raises:
            DlperfError: The case is invalid, or a plugin cannot be loaded.
        """
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
            f"{describe(spec)} ran, but its number is not valid: "
            + "; ".join(f"{verdict.name}: {verdict.detail}" for verdict in failed),
            "such a result is marked as failed and cannot be published",
            "see what each verdict found; `dlperf run` with the same case shows the whole report",
        )
        return result


def _key(spec: RunSpec) -> str:
    return json.dumps(spec.to_dict(), sort_keys=True)


def verdict(result: Result, name: str) -> Verdict:
    """Return the verdict of a result that has the name `name`, such as `loss-falls`.

    Raises:
        StopIteration: The result has no such verdict.
    """
    return next(verdict for verdict in result.verdicts if verdict.name == name)


def describe(spec: RunSpec) -> str:
    """Return a line such as `torch resnet50 with topology 1n2d, compiler inductor`.

    It names the framework, the model, and those of the following settings that are not the default: topology,
    precision, compiler, strategy, layout, data source and accumulation.
    """
    plain = RunSpec(framework=spec.framework, model=spec.model)
    names = ("topology", "precision", "compiler", "strategy", "layout", "data", "accumulation")
    parts = [f"{name} {getattr(spec, name)}" for name in names if getattr(spec, name) != getattr(plain, name)]
    case = f"{spec.framework} {spec.model}"
    return f"{case} with {', '.join(parts)}" if parts else case
