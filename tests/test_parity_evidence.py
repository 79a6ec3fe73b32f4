"""Evidence through the front door: a toy model with a reference of its own, real processes, a real cache."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import numpy
import pytest
from conftest import processes_with
from dlperf_numpy.framework import Linear

from dlperf_sdk import RunSpec, environments, hookimpl, run, verify
from dlperf_sdk.errors import DocumentError, OutOfMemory, Unavailable, UnknownName, UsageError
from dlperf_sdk.execute import launched
from dlperf_sdk.interfaces.model import plain
from dlperf_sdk.parity import cache, reference
from dlperf_sdk.parity.evidence import evidence
from dlperf_sdk.plan import make_plan
from dlperf_sdk.registry import Registry
from dlperf_sdk.verification import exit_code
from dlperf_sdk.worker import canonical

QUICK = {"batch_size": 4, "warmup": 1, "steps": 5, "repeats": 1, "store": None}
STEPS, BATCH, RATE = 3, 8, 0.05


def descent(shards: list[int], rate: float = RATE) -> list[dict[str, Any]]:
    """Least squares by gradient descent in float64, replicas' gradients averaged."""
    options = Linear.Options()
    manifest = [plain(parameter) for parameter in Linear().parameters(options)]
    inputs = [plain(entry) for entry in Linear().inputs(options)]
    first = dict(canonical.weights(manifest, 7))["weight"].astype("float64")
    batches = [canonical.batch(inputs, BATCH, shard, 7) for shard in shards]
    weight, losses, update = first.copy(), [[] for _ in shards], None
    for _ in range(STEPS):
        gradients = []
        for i, batch in enumerate(batches):
            x, y = (batch[name].astype("float64") for name in ("x", "y"))
            error = x @ weight.T - y
            losses[i].append(float((error**2).mean()))
            gradients.append(2 * error.T @ x / BATCH)
        weight = weight - rate * sum(gradients) / len(shards)
        update = canonical.fingerprint("weight", weight, first) if update is None else update
    return [
        {"losses": one, "updates": {"weight": update} if i == 0 else {}, "running_means": {}}
        for i, one in enumerate(losses)
    ]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, and a reference beside it."""
    monkeypatch.setenv("DLPERF_CACHE_DIR", str(tmp_path / "cache"))
    reference.load.cache_clear()
    fine = {"losses": 1e-5, "updates": 1e-5, "means": 1e-5, "least": 0.0, "parameter": 1e-5, "why": "float32"}
    case = {
        "options": {"learning_rate": RATE},
        "batch_size": BATCH,
        "seed": 7,
        "steps": STEPS,
        "noise": {},
        "alone": [descent([0])[0], descent([1])[0]],
        "pair": descent([0, 1]),
        "mistakes": [
            {"name": "twice the rate", "topology": where, "replicas": descent(shards, 2 * RATE)}
            for where, shards in (("alone", [0]), ("pair", [0, 1]))
        ],
    }
    document = {
        "schema_version": "1.0",
        "model": "mine",
        "source": "this test",
        "tolerances": {"fp32": fine},
        "cases": {"small": case},
    }
    (tmp_path / "mine.json").write_text(json.dumps(document))
    return tmp_path


def registry(place: Path, **changes: Any) -> Registry:
    """The toy model, with its reference."""
    fields = {"name": "mine", "trainers": {"numpy": "dlperf_numpy.worker:Linear"}}
    fields |= {"references": place / "mine.json", **changes}
    return Registry({"models": {"mine": type("Mine", (Linear,), fields)}})


class Stages:
    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    @hookimpl
    def dlperf_stage(self, stage: str, detail: str) -> None:
        self.told.append((stage, detail))


@pytest.mark.parametrize("topology", ["1n1d", "1n2d", "2n1d", "1n4d"])
def test_a_run_carries_its_evidence_and_the_next_one_finds_it(place: Path, topology: str) -> None:
    stages = Stages()
    result = run("numpy", "mine", topology=topology, registry=registry(place), observers=[stages], **QUICK)
    assert result.verdict("parity").outcome == "pass", result.verdict("parity")
    assert result.exit_code == 0
    assert result.parity.case == "small"
    assert len(result.parity.losses) == result.spec.topology.devices
    assert max(result.parity.deviations) < 1e-5
    assert type(result).from_dict(result.to_dict()) == result
    assert [detail for stage, detail in stages.told if stage == "parity"]
    again = run("numpy", "mine", topology=topology, registry=registry(place), observers=[stages], **QUICK)
    assert "is evidence for this one" in [detail for stage, detail in stages.told if stage == "parity"][-1]
    assert again.parity == result.parity


def test_replicas_that_do_not_meet_are_each_held_to_their_own_shard(place: Path) -> None:
    result = run("numpy", "mine", topology="1n2d", strategy="independent", registry=registry(place), **QUICK)
    assert result.verdict("parity").outcome == "pass", result.verdict("parity")


def test_an_odd_number_of_replicas_is_inconclusive(place: Path) -> None:
    result = run("numpy", "mine", topology="1n3d", registry=registry(place), **QUICK)
    assert result.verdict("parity").outcome == "inconclusive"
    assert result.exit_code == 0


def test_a_model_without_a_reference_says_what_is_missing(place: Path) -> None:
    result = run("numpy", "mine", registry=registry(place, references=None), **QUICK)
    assert result.verdict("parity").outcome == "inconclusive"
    assert "Model.references" in result.parity.detail
    assert result.ok


def test_a_wrong_model_fails_by_name_and_is_measured_all_the_same(place: Path) -> None:
    """The reference's case asks for one rate, the reference itself was made with half of it."""
    path = place / "mine.json"
    path.write_text(path.read_text().replace(f'"learning_rate": {RATE}', f'"learning_rate": {2 * RATE}'))
    reference.load.cache_clear()
    for topology in ("1n1d", "1n2d"):
        result = run("numpy", "mine", topology=topology, registry=registry(place), **QUICK)
        assert (result.status, result.exit_code) == ("ok", 1)
        assert result.parity.follows == ("twice the rate",)
        assert result.parity.differing == ("weight",)
        assert result.metric("throughput").value > 0
    assert not list((place / "cache" / "parity").glob("*.json")), "what failed is not kept"


def test_a_reference_that_cannot_be_read_is_inconclusive(place: Path) -> None:
    (place / "mine.json").write_text("{}")
    result = run("numpy", "mine", registry=registry(place), **QUICK)
    assert result.verdict("parity").outcome == "inconclusive"
    assert "mine" in result.parity.detail
    with pytest.raises(DocumentError):
        reference.load(place / "mine.json")


# -- what a parity run may come to, event by event


def judged(place: Path, launch: Any, **fields: Any) -> Any:
    plugins = registry(place)
    plan = make_plan(RunSpec(framework="numpy", model="mine", protocol="quick", **fields), plugins)
    prepared = environments.prepare("numpy", plan.environment, "cpu")
    if launch is None:
        launch = lambda one, request: launched(one, request, plugins)  # noqa: E731
    return evidence(plan, prepared, plugins, launch, lambda text: None)


def failing(kind: str) -> Any:
    failure = {"kind": kind, "message": f"It was {kind}.", "phase": "warmup", "node": 0, "rank": 0}

    def launch(plan: Any, request: Any) -> Any:
        yield {"event": "attempt-ended", "failure": failure, "records": []}
        yield {"event": "ended", "failure": failure}

    return launch


@pytest.mark.parametrize("kind", ["crashed", "timeout", "invalid-record", "lost-node"])
def test_a_parity_run_that_fails_is_a_verdict_in_its_own_words(place: Path, kind: str) -> None:
    found = judged(place, failing(kind))
    assert found.outcome == "fail"
    assert f"It was {kind}." in found.detail


@pytest.mark.parametrize(("kind", "error"), [("out-of-memory", OutOfMemory), ("unavailable", Unavailable)])
def test_what_would_end_the_case_ends_it(place: Path, kind: str, error: type[Exception]) -> None:
    with pytest.raises(error, match=f"It was {kind}"):
        judged(place, failing(kind))


@pytest.mark.parametrize(
    "records",
    [[], [{}], ["record"], [{"status": "ok"}]],
)
def test_records_that_break_the_protocol_fail(place: Path, records: list[Any]) -> None:
    def launch(plan: Any, request: Any) -> Any:
        yield {"event": "attempt-ended", "failure": None, "records": records}
        yield {"event": "ended", "failure": None}

    found = judged(place, launch)
    assert found.outcome == "fail"
    assert "protocol" in found.detail


def test_an_interruption_leaves_nothing_behind(place: Path) -> None:
    ids = []

    def launch(plan: Any, request: Any) -> Any:
        ids.append(request.id)
        for event in launched(plan, request, registry(place)):
            if event["event"] == "worker-started":
                raise KeyboardInterrupt
            yield event

    with pytest.raises(KeyboardInterrupt):
        judged(place, launch, topology="1n2d")
    assert ids
    assert not processes_with(ids[0])


def test_the_key_changes_with_everything_that_could_change_the_steps(place: Path) -> None:
    keys = [judged(place, None).key, judged(place, None, precision="fp32", batch_size=64).key]
    assert keys[0] == keys[1], "the measured batch is no part of the parity run"
    others = [
        judged(place, None, topology="1n2d").key,
        judged(place, None, topology="2n1d").key,
        judged(place, None, strategy="independent", topology="1n2d").key,
        judged(place, None, env={"OMP_WAIT_POLICY": "ACTIVE"}).key,
    ]
    path = place / "mine.json"
    path.write_text(path.read_text().replace("this test", "another source"))
    reference.load.cache_clear()
    others.append(judged(place, None).key)
    assert len({keys[0], *others}) == 1 + len(others)
    assert all(cache.fetch(key) is not None for key in (keys[0], *others))


# -- verify


def test_frameworks_side_by_side(place: Path) -> None:
    said: list[str] = []
    found = verify(
        ["numpy", "nothing"], "mine", registry=registry(place), topology="1n2d", on_progress=said.append
    )
    assert [row.outcome for row in found[0].rows] == ["pass", "not-run"]
    assert "There is no framework named 'nothing'" in found[0].rows[1].reason
    assert exit_code(found) == 5
    assert len(found[0].losses) == 2
    assert json.loads(json.dumps(found[0].to_dict()))["rows"][0]["outcome"] == "pass"
    assert said


def test_nothing_that_could_be_judged(place: Path) -> None:
    assert exit_code(verify(["nothing"], "mine", registry=registry(place))) == 3
    assert exit_code(verify(["numpy"], "mine", registry=registry(place), case="full")) == 3


def test_what_is_asked_wrongly_is_raised(place: Path) -> None:
    plugins = registry(place)
    with pytest.raises(UnknownName, match="Did you mean 'mine'"):
        verify(["numpy"], "min", registry=plugins)
    with pytest.raises(UsageError, match="Which frameworks"):
        verify([], "mine", registry=plugins)
    with pytest.raises(UsageError, match="options"):
        verify(["numpy"], "mine", registry=plugins, options={"features": 3})


def test_a_failing_framework_is_told_where(place: Path) -> None:
    from dlperf_sdk.report import terminal, verification

    path = place / "mine.json"
    path.write_text(path.read_text().replace(f'"learning_rate": {RATE}', f'"learning_rate": {2 * RATE}'))
    reference.load.cache_clear()
    found = verify(["numpy"], "mine", registry=registry(place))
    assert exit_code(found) == 1
    text = terminal.text_of(verification.page(found), width=120)
    assert "twice the rate" in text
    assert "weight" in text.splitlines()[-1]
    assert numpy.isfinite(found[0].rows[0].parity.updates)
    assert attrs.has(type(found[0]))


def test_without_a_model_all_that_one_of_them_implements(place: Path) -> None:
    found = verify(["numpy"], registry=registry(place))
    names = {one.model for one in found}
    assert {"mine", "linear", "softmax"} <= names
    assert "resnet50" not in names
    assert exit_code(found) == 0
