"""The references that ship: whole, and apart from every known mistake."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest

from dlperf_sdk.harness.in_process import SMALL
from dlperf_sdk.models.bert_base import BertBase
from dlperf_sdk.parity.compare import compare
from dlperf_sdk.parity.evidence import REFERENCE_CASE
from dlperf_sdk.parity.known_mistakes import FOLLOWS, separation
from dlperf_sdk.parity.record import records_from
from dlperf_sdk.parity.reference import Mistake, Trajectory, load
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.spec.precision import PRECISIONS
from dlperf_sdk.testing.subject import TINY, FrameworkSubject

ROOT = Path(__file__).resolve().parents[2]
PLACES = (ROOT / "src", ROOT / "plugins")
"""Where the models are whose references must know all precisions: those of the examples train in fp32 only."""
MODELS = {
    name: model
    for name in Registry().names("models")
    if (model := Registry().model(name)).references is not None
    and any(model.references.is_relative_to(place) for place in PLACES)
}
CASES = [(name, case) for name, model in MODELS.items() for case in load(model.references).cases]
MISTAKES = [
    pytest.param(name, case, mistake, id=f"{name}-{case}-{mistake.topology}-{mistake.name}")
    for name, case in CASES
    for mistake in load(MODELS[name].references).cases[case].mistakes
]


@pytest.mark.parametrize(("name", "case"), CASES)
def test_a_case_is_of_its_model(name: str, case: str) -> None:
    model, actual = MODELS[name], load(MODELS[name].references).cases[case]
    parameters = model.parameters(model.Options(**actual.options))
    manifest = [parameter.name for parameter in parameters]
    # As the model's page has it; in bert-base those are layer norms, which keep nothing.
    products = {one.name.removesuffix(".weight") for one in parameters if len(one.shape) > 1}
    norms = [one.name.removesuffix(".bias") for one in parameters if one.name.endswith(".bias")]
    means = [f"{norm}.running_mean" for norm in norms if model.has_images and norm not in products]
    for trajectories in (actual.alone, actual.pair):
        for i, trajectory in enumerate(trajectories):
            assert list(trajectory.running_means) == means
            if i == 0 or trajectories is actual.alone:
                assert list(trajectory.updates) == manifest
            assert trajectory.losses[0] > trajectory.losses[-1]
    assert len({trajectory.losses[0] for trajectory in actual.alone}) == len(actual.alone)
    assert not actual.options.get("dropout")


def test_tiny_case_is_what_the_suite_trains() -> None:
    """The same batches of the same network: what was compiled for one is the other's. Decay is the optimizer's."""
    case = load(BertBase.references).cases[TINY]
    trained = attrs.asdict(BertBase.Options(**SMALL["bert-base"]))
    assert {**case.options, "weight_decay": trained["weight_decay"]} == trained
    assert case.batch_size == FrameworkSubject.batch_size


class _Torch(FrameworkSubject):
    framework = "torch"
    device = "cpu"


@pytest.mark.parametrize(
    ("model", "fields", "case"),
    [
        ("bert-base", {}, REFERENCE_CASE),
        ("bert-base", {"compiler": "inductor"}, TINY),
        ("bert-base", {"precision": "amp-bf16"}, TINY),
        ("bert-base", {"topology": "1n2d"}, TINY),
        ("resnet50", {"precision": "amp-bf16"}, REFERENCE_CASE),
    ],
)
def test_the_plainest_case_is_compared_as_ordinary_runs_are(
    model: str, fields: dict[str, Any], case: str
) -> None:
    subject = _Torch()
    assert subject.reference_case(subject.spec(model, **fields)) == case


@pytest.mark.parametrize(("name", "case", "mistake"), MISTAKES)
def test_no_known_mistake_is_invisible(name: str, case: str, mistake: Mistake) -> None:
    reference = load(MODELS[name].references)
    assert separation(mistake, reference.cases[case], reference.tolerances["fp32"]) > FOLLOWS


@pytest.mark.parametrize(("name", "case", "mistake"), MISTAKES)
def test_every_known_mistake_fails_and_is_called_by_its_name(name: str, case: str, mistake: Mistake) -> None:
    """A run that does exactly what the mistake does: its losses, and what differs most; all else as it should be."""
    reference = load(MODELS[name].references)
    actual = reference.cases[case]
    right = actual.alone[:1] if mistake.topology == "alone" else actual.pair
    pairs = zip(mistake.replicas, right, strict=True)
    records = [document(rank, one, wrong) for rank, (wrong, one) in enumerate(pairs)]
    tolerance = reference.tolerances["fp32"]
    judgment = compare(records_from(records), actual, tolerance, "all_reduce", len(right))
    assert judgment.outcome == "fail"
    assert mistake.name in judgment.follows
    assert mistake.name in judgment.detail


@pytest.mark.parametrize("name", MODELS)
def test_every_precision_has_its_bounds_and_its_reasons(name: str) -> None:
    tolerances = load(MODELS[name].references).tolerances
    assert set(tolerances) == PRECISIONS.names
    for tolerance in tolerances.values():
        assert len(tolerance.reason) > 50
        assert tolerance.least < min(tolerance.updates, tolerance.means)


@pytest.mark.parametrize(("name", "case"), CASES)
def test_float64_itself_passes_for_fp32_and_for_nothing_narrower(name: str, case: str) -> None:
    reference = load(MODELS[name].references)
    actual = reference.cases[case]
    for right, strategy in (
        (actual.alone[:1], "all_reduce"),
        (actual.alone, "independent"),
        (actual.pair, "all_reduce"),
    ):
        if not right:
            continue
        records = records_from([document(rank, one) for rank, one in enumerate(right)])
        for precision, tolerance in reference.tolerances.items():
            judgment = compare(records, actual, tolerance, strategy, len(right))
            assert judgment.outcome == ("pass" if precision == "fp32" else "fail"), judgment.detail
            assert ("not in effect" in judgment.detail) == (precision != "fp32")


def document(rank: int, one: Trajectory, wrong: Trajectory | None = None) -> dict[str, Any]:
    """The parity record of a replica on a trajectory, or on that of a mistake as far as that is known."""
    wrong = wrong or one
    follower = {
        "index": rank,
        "digest": "same",
        "losses": list(wrong.losses),
        "updates": {key: list(value) for key, value in {**one.updates, **wrong.updates}.items()},
        "running_means": {
            key: list(value) for key, value in {**one.running_means, **wrong.running_means}.items()
        },
    }
    head = {"schema_version": "1.0", "status": "ok", "failure": None, "request": "r", "attempt": 1, "node": 0}
    rest = {"skipped_steps": 0, "facts": {}, "observed": {}}
    return {**head, "rank": rank, "replicas": [follower], **rest}


def test_references_are_small_enough_to_ship() -> None:
    for model in MODELS.values():
        assert model.references.stat().st_size < 2_000_000
        json.loads(model.references.read_text(encoding="utf-8"))
