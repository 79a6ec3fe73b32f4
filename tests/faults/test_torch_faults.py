"""Every wrong torch trainer is caught by parity, and recognized; the right ones pass. In torch's environment."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import torch_faults_controller as controller
from faults import BY_OTHER_CASES, BY_PAIR, BY_TRAJECTORY, BY_WINDOW_OF_TORCH

from dlperf_sdk import environments
from dlperf_sdk.parity.compare import compare
from dlperf_sdk.parity.record import records_from
from dlperf_sdk.parity.reference import load
from dlperf_sdk.planning import bundle
from dlperf_sdk.planning.plan import make_plan
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.testing import samples
from dlperf_sdk.testing.cells import Cell
from dlperf_sdk.testing.subject import verdict
from dlperf_sdk.worker.variables import worker_environment

# One process tries them all, and they share what it found.
pytestmark = [pytest.mark.framework, pytest.mark.long, pytest.mark.xdist_group("torch-faults")]

RIGHT = {"Right": "resnet50", "RightBert": "bert-base"}
MODELS = {**RIGHT, **{fault.plugin: fault.model for fault in BY_TRAJECTORY}}
PRECISION = {"SilentlyFp32": "amp-bf16"}


def planned(name):
    """The plan of the reference's small case."""
    model = Registry().model(MODELS[name])
    case = load(model.references).cases["small"]
    return make_plan(
        RunSpec(
            framework="torch",
            model=model.name,
            device="cpu",
            batch_size=case.batch_size,
            seed=case.seed,
            canonical_steps=case.steps,
            precision=PRECISION.get(name, "fp32"),
            options=dict(case.options),
        ),
        Registry(),
    )


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """Trainer → what it left: all of them in one process of torch's environment."""
    place = tmp_path_factory.mktemp("torch")
    plans = {name: planned(name) for name in MODELS}
    first = plans["Right"]
    prepared = environments.prepare("torch", first.environment, "cpu")
    requests = {
        name: plan.request(name, prepared.command, {}, {"source": "synthetic"})
        for name, plan in plans.items()
    }
    for name, content in bundle.contents(requests["Right"]).items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content)
    (place / "plan.json").write_text(json.dumps({n: r.to_dict() for n, r in requests.items()}))
    program = Path(__file__).with_name("torch_faults.py")
    with environments.use_environment(prepared):
        subprocess.run(
            [*prepared.command, "-I", str(program), str(place)],
            env=worker_environment(os.environ, {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "PASSIVE"}, {}),
            check=True,
        )
    return json.loads((place / "answers.json").read_text())


def compared(name, answer):
    head = {"schema_version": "1.0", "request": name, "attempt": 1, "rank": 0, "node": 0, "status": "ok"}
    records = records_from([{**head, "failure": None, "facts": {}, "observed": {}, **answer}])
    reference = load(Registry().model(MODELS[name]).references)
    tolerance = reference.tolerances[PRECISION.get(name, "fp32")]
    return compare(records, reference.cases["small"], tolerance, "all_reduce", 1)


@pytest.mark.parametrize("name", RIGHT)
def test_correct_trainer_passes(name, answers):
    actual = compared(name, answers[name])
    assert actual.outcome == "pass", actual


@pytest.mark.usefixtures("planted_fault")
@pytest.mark.parametrize("fault", BY_TRAJECTORY, ids=lambda fault: fault.plugin)
def test_parity_catches(fault, answers):
    actual = compared(fault.plugin, answers[fault.plugin])
    assert actual.outcome == "fail", actual
    assert fault.message in actual.detail, actual.detail


@pytest.mark.usefixtures("planted_fault")
@pytest.mark.parametrize("fault", BY_PAIR, ids=lambda fault: fault.plugin)
def test_parity_detects_fault_of_two_replicas(fault):
    suite = controller.suite_of(fault)
    actual = suite.parity_of(suite.spec(fault.model, topology="1n2d"))
    assert actual.outcome == "fail", actual
    assert fault.message in actual.detail, actual.detail


@pytest.mark.usefixtures("planted_fault", "without_reference")
@pytest.mark.parametrize("fault", BY_WINDOW_OF_TORCH, ids=lambda fault: fault.plugin)
def test_the_window_is_verified(fault, tmp_path):
    suite = controller.suite_of(fault)
    given, fields = dict(fault.parameters), {"topology": "1n2d" if fault.where else "1n1d"}
    if "dropout" in given:
        fields["options"] = {"dropout": float(given["dropout"])}
    if "data" in given:
        {"images": samples.write_images, "text": samples.write_sentences}[given["data"]](tmp_path)
        fields["data"] = f"{given['data']}:{tmp_path}"
    result = suite.run_case(suite.spec(fault.model, warmup=4, steps=4, **fields))
    actual = verdict(result, fault.detector)
    assert actual.outcome == "fail", actual
    assert fault.message in actual.detail, actual


@pytest.mark.usefixtures("planted_fault")
@pytest.mark.parametrize("fault", BY_OTHER_CASES, ids=lambda fault: fault.plugin)
def test_the_other_cases_catch(fault, tmp_path):
    suite = controller.suite_of(fault)
    suite.test_follows_reference(Cell((fault.model,)))  # which is why there are others
    with pytest.raises(AssertionError, match=fault.message):
        fault.run_detector(suite, tmp_path)
