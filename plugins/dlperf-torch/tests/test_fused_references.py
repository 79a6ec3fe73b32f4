"""Training with the Triton kernels, in Triton's interpreter, against the models' float64 references: not on a GPU."""

import json

import pytest

from dlperf_sdk.harness.in_process import MODELS
from dlperf_sdk.parity.distance import combined_distance, deviation
from dlperf_sdk.worker import canonical

pytest.importorskip("torch", reason="the worker half needs torch, which is not in this environment")
pytest.importorskip("triton", reason="triton is not in this environment; see test_fused_bert.py")


@pytest.mark.parametrize(
    ("model", "name", "precision", "option"),
    [
        ("resnet50", "gamma", "fp32", "fused_batch_norm"),
        ("bert-base", "tiny", "amp-fp16", "fused_layers"),
    ],
)
def test_training_follows_the_reference(make_trainer, model, name, precision, option):
    references = json.loads(MODELS[model].references.read_text(encoding="utf-8"))
    case = references["cases"][name]
    trainer = make_trainer(
        model,
        options=case["options"],
        framework_options={option: True},
        batch_size=case["batch_size"],
        precision=precision,
        seed=case["seed"],
    )
    assert trainer.observed()["triton_kernels"]
    expected, allowed = case["alone"][0], references["tolerances"][precision]
    before = {name: values.copy() for name, values in trainer.parameters(0)}
    batch = trainer.canonical_batch()
    first = trainer.read_loss(trainer.step(batch).loss)
    updates = {
        name: canonical.fingerprint(name, values, before[name])
        for name, values in trainer.parameters(0)
        if name in expected["updates"]
    }
    assert updates.keys() == expected["updates"].keys()
    assert allowed["least"] <= combined_distance([(updates, expected["updates"])]) <= allowed["updates"]
    losses = first + trainer.read_loss(
        trainer.step(batch).loss
    )  # a step of ResNet-50 takes the interpreter a minute
    assert all(
        deviation(*pair) <= allowed["losses"] for pair in zip(losses, expected["losses"], strict=False)
    )
