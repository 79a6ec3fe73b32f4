"""Test one replica's training: the model's parameters, canonical weights, and the losses of its steps."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dlperf_sdk.planning.plan import make_plan
from dlperf_sdk.results.result import FAIL, PASS
from dlperf_sdk.spec.precision import PRECISIONS
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.testing.cells import Cell
from dlperf_sdk.testing.conformance import advice
from dlperf_sdk.testing.starts import Answer
from dlperf_sdk.testing.subject import FrameworkSubject, describe, verdict


class Training(FrameworkSubject):
    """Tests of short real runs in each cell of one replica, and of answers of the trainer of such a run.

    Each test is skipped where its case cannot run: see `FrameworkSubject`.
    """

    def test_trains(self, cell: Cell) -> None:
        """With the settings of `cell`, a run succeeds, and none of its integrity verdicts fails.

        A case in fp32 without a compiler must not be refused. `cell` is a combination of model, precision and compiler
        for one replica.
        """
        spec = self.spec_of(cell)
        status = self.result_of(spec).status if cell.is_plain else None
        assert status != "unsupported", advice(
            f"{describe(spec)} ended with {status}.",
            "a model in fp32 on one device is what a plugin offers wherever it offers anything",
            "raise Unsupported for what only some machines can do; leave a model that cannot run out of `trainers`",
        )
        self.require_valid_result(spec)

    def test_worker_answers(self, cell: Cell) -> None:
        """With the settings of `cell`, the methods of `Runtime` and `Trainer` raise no exception, on any rank.

        `cell` is a combination of model, precision and compiler for one replica.
        """
        spec = self.spec_of(cell)
        failed = self._first_failed(self.answers_of(spec))
        self.skip_if_unfinished(failed)
        assert failed is None, advice(
            f"In {self.framework}'s plugin, for {describe(spec)}, {failed}",
            "the measuring loop calls the same methods",
            "see the docstrings of `dlperf_sdk.worker.interface`",
        )

    def test_parameters_match_manifest(self, model: str) -> None:
        """The trainer's `parameters` are those of the model's manifest: names, order and shapes are equal.

        The arrays are float32 in C order. The model named `model` is trained in fp32 on one device without a compiler.
        """
        answer = self.answers_of(self.spec(model))[0]
        manifest = (
            answer.values["manifest"] if "manifest" in answer.values else self._answer(model)["manifest"]
        )
        expected = [
            [parameter["name"], list(parameter["shape"]), "float32", True]
            for parameter in self._manifest(model)
        ]
        different = [f"{a} where the manifest has {b}" for a, b in zip(manifest, expected, strict=False)
                     if a != b]  # fmt: skip
        assert len(manifest) == len(expected) and not different, advice(
            f"{len(manifest)} parameters, and {len(expected)} in the manifest; (name, shape, type, C order): "
            + "; ".join(different[:5]),
            "replicas and frameworks are compared by these, one by one",
            "let `parameters` go through `request.parameters`, transpose what the framework keeps otherwise, and "
            "leave out what is not trained",
        )

    def test_starts_from_canonical_weights(self, cell: Cell) -> None:
        """With the settings of `cell`, each parameter has exactly its canonical values when the first step begins.

        `cell` is a combination of model, precision and compiler for one replica.
        """
        spec = self.spec_of(cell)
        different = self._values_of(spec)[0]["initial"]
        assert not different, advice(
            f"{describe(spec)}: before the first step {len(different)} parameters are not the canonical weights: "
            f"{', '.join(different[:8])}.",
            "every framework starts from the same numbers, or no two can be compared",
            "fill each parameter from `canonical.weights(request.parameters, request.seed)` in the constructor, "
            "transposed as the framework wants it, and let nothing initialize it afterwards",
        )

    def test_deviation_has_no_side_effects(self, cell: Cell) -> None:
        """With the settings of `cell`, a call of the trainer's `deviation` leaves the parameters unchanged.

        `cell` is a combination of model, precision and compiler for one replica.
        """
        spec = self.spec_of(cell)
        assert self._values_of(spec)[0]["traceless"], advice(
            f"{describe(spec)}: `deviation` changed the parameters.",
            "the training that is measured would start from other numbers than in other frameworks",
            "compute both outputs without an optimization step, and put back what was changed",
        )

    def test_every_step_updates(self, cell: Cell) -> None:
        """With the settings of `cell`, each step changes the parameters, and reports `batch_size` samples.

        Several steps are taken on the canonical batch by one replica; `batch_size` is the suite's attribute. In a
        precision with a loss scaler, steps need not change the parameters: the scaler may skip them. `cell` is a
        combination of model, precision and compiler for one replica.
        """
        spec = self.spec_of(cell)
        answer = self._values_of(spec)[0]
        assert all(answer["changed"]) or PRECISIONS[spec.precision].scales_loss, advice(
            f"{describe(spec)}: of {len(answer['changed'])} steps these changed the parameters: {answer['changed']}.",
            "a step without its backward pass or its update is faster, and no training",
            "let every call of `step` do forward, backward and update",
        )
        assert set(answer["samples"]) == {self.batch_size}, advice(
            f"{describe(spec)}: `step` says that it took {sorted(set(answer['samples']))} samples; the request says "
            f"{self.batch_size}.",
            "the throughput is made of this number",
            "return the samples of all replicas of the process: the batch size per device times its devices",
        )

    def test_loss_handles_stay_valid(self, cell: Cell) -> None:
        """With the settings of `cell`, the loss of a step has the same value if it is read again after more steps.

        The losses also match those of another run of the case: the first one within the precision's `loss_tolerance`,
        each later one within the larger `grown_loss_tolerance` (`is_loss_of`), because in narrow formats training
        amplifies differences in the order of summation. The losses must differ from step to step. `cell` is a
        combination of model, precision and compiler for one replica.
        """
        spec = self.spec_of(cell)
        answer = self._values_of(spec)[0]
        early, repeated = ([losses[0] for losses in answer[key]] for key in ("losses", "losses_again"))
        result = self.result_of(spec)
        self.skip_if_unfinished(result.failure)
        assert result.failure is None, f"see `test_trains`: {result.failure}"
        late = list(result.repeats[0].records[0].replicas[0].canonical_losses)
        assert len(set(early)) > 1, f"the losses do not change from step to step: {early}"
        tolerance = PRECISIONS[spec.precision].loss_tolerance
        first = math.isclose(early[0], late[0], rel_tol=tolerance)
        is_alike = all(is_loss_of(step, loss, early, spec.precision) for step, loss in enumerate(late))
        assert early == repeated and first and is_alike, advice(
            f"{describe(spec)}: read at once the losses of the first steps are {_join_losses(early)}, read again after "
            f"more steps {_join_losses(repeated)}, and in another run read after the window {_join_losses(late)}.",
            "losses are read when the clock has stopped: a handle must hold the loss of its own step until then",
            "return a handle with its own memory: copy what the next step overwrites, without waiting for it",
        )

    def test_window_continues_first_steps(self, cell: Cell) -> None:
        """With the settings of `cell`, losses of warm-up and window match those of a process without these phases.

        After the canonical steps, that process trains some more steps on the canonical batch. The data source
        `synthetic` must therefore yield the complete canonical batch in every step. Losses match within the precision's
        tolerances (`is_loss_of`). `cell` is a combination of model, precision and compiler for one replica.
        """
        spec = self.spec_of(cell)
        answer = self._values_of(spec)[0]
        continued = [losses[0] for losses in answer["losses_further"]]
        result = self.result_of(spec)
        self.skip_if_unfinished(result.failure)
        assert result.failure is None, f"see `test_trains`: {result.failure}"
        replica = result.repeats[0].records[0].replicas[0]
        window = [*replica.warmup_losses, *replica.losses]
        pairs = list(zip(window, continued, strict=False))
        is_equal = all(
            is_loss_of(step, loss, continued, spec.precision) for step, (loss, _) in enumerate(pairs)
        )
        assert pairs and is_equal, advice(
            f"{describe(spec)}: the losses of the warm-up and the window are {_join_losses(window)}; the next steps on "
            f"the canonical batch have {_join_losses(continued)}.",
            "parity and the precision are shown on the canonical batch: a window that trains on something else, or in "
            "another way, is not what they vouch for",
            "let `batches` of the source 'synthetic' yield the canonical batch, with all its samples, and let `step` "
            "do the same whoever calls it",
        )

    def test_dropout_is_in_effect(self, model: str) -> None:
        """With the option `dropout` of `model` at 0.5, the loss of the first step differs from that without dropout.

        The verdict `precision-effective` must not fail in either run. Where dropout acts, and how much it drops, is not
        checked. Skipped for models without the option.
        """
        if not hasattr(self.registry.model(model).Options(), "dropout"):
            pytest.skip(f"{model} has no dropout")
        disabled, dropping = (self._first_loss(model, dropout=rate) for rate in (0.0, 0.5))
        assert not math.isclose(disabled, dropping, rel_tol=PRECISIONS["fp32"].loss_tolerance), advice(
            f"{self.framework} {model}: the loss of the first step is {dropping:.7g} with dropout 0.5, and "
            f"{disabled:.7g} without.",
            "drawing and applying the masks takes time, and without them the number is that of another model",
            "drop with the rate of `request.model_options`, wherever the model's page says, in `step` and nowhere else",
        )

    def _first_loss(self, model: str, **options: Any) -> float:
        result = self.result_of(self.spec(model, options=options))
        self.skip_if_unfinished(result.failure)
        assert result.failure is None, advice(
            f"{self.framework} {model} with {options} ended with {result.status}: "
            f"{result.failure and result.failure.message}",
            "the option is in the model's default case, and the case of the published figures",
            f"read the traceback below\n{(result.failure and result.failure.traceback) or ''}",
        )
        effective = verdict(result, "precision-effective")
        assert effective.outcome != FAIL, advice(
            f"{self.framework} {model} with {options}: {effective.detail}",
            "dropout is on in the model's default case, and every number of it would be marked as not true",
            "compare the outputs in `deviation` without dropout",
        )
        return float(result.repeats[0].records[0].replicas[0].canonical_losses[0])

    def test_loss_falls(self, cell: Cell) -> None:
        """With the settings of `cell`, the verdict `loss-falls` of a run is `pass`.

        It passes if the loss of each replica falls during the steps on the canonical batch. `cell` is a combination of
        model, precision and compiler for one replica.
        """
        judgement = verdict(self.require_valid_result(self.spec_of(cell)), "loss-falls")
        assert judgement.outcome == PASS, advice(
            judgement.detail,
            "what does not learn is not training",
            "look for an update that is not applied, has the wrong sign, or uses the gradients of another step",
        )

    def _answer(self, model: str) -> dict[str, Any]:
        """Return the first worker's answers in the model's plainest case."""
        return self._values_of(self.spec(model))[0]

    def _values_of(self, spec: RunSpec) -> list[dict[str, Any]]:
        """Return the trainers' answers in a case, by rank; fail the test if a trainer failed."""
        answers = self.answers_of(spec)
        failed = self._first_failed(answers)
        if failed is not None:
            self.skip_if_unfinished(failed)
            pytest.fail(f"see `test_worker_answers`: {failed.splitlines()[-1]}")
        return [dict(answer.values) for answer in answers]

    def _first_failed(self, answers: tuple[Answer, ...]) -> str | None:
        """Return the traceback of the first trainer that failed; None if none did."""
        return next((answer.failed for answer in answers if answer.failed is not None), None)

    def _manifest(self, model: str) -> tuple[dict[str, Any], ...]:
        return tuple(dict(entry) for entry in make_plan(self.spec(model), self.registry).parameters)


def is_loss_of(step: int, loss: float, losses: list[float], precision: str) -> bool:
    """Return True if the loss of a step in one run matches the loss of that step in another run of the same case.

    Two losses match within the precision's relative `loss_tolerance`. They also match within the larger
    `grown_loss_tolerance` if no other step of the other run has a closer loss.

    Args:
        step: Index of the step in `losses`.
        loss: The loss of that step in the one run.
        losses: The losses of the other run, one per step.
        precision: The name of the precision.
    """
    tolerances = PRECISIONS[precision]
    return math.isclose(loss, losses[step], rel_tol=tolerances.loss_tolerance) or (
        math.isclose(loss, losses[step], rel_tol=tolerances.grown_loss_tolerance)
        and _nearest_step(loss, losses) == step
    )


def _nearest_step(loss: float, losses: list[float]) -> int:
    """Return the step whose loss is the closest."""
    return min(range(len(losses)), key=lambda step: abs(losses[step] - loss))


def _join_losses(values: list[float]) -> str:
    return ", ".join(f"{value:.6g}" for value in values)
