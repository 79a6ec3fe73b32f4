"""The two models: their manifests, inputs, arithmetic and optimizers, against counts made in another way."""

from __future__ import annotations

import importlib
import json
import math
import tomllib
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlperf_sdk.errors import SpecError
from dlperf_sdk.interfaces.model import Model, entry_to_dict
from dlperf_sdk.models.bert_base import BertBase, BertBaseOptions
from dlperf_sdk.models.resnet50 import ResNet50, ResNet50Options
from dlperf_sdk.worker import canonical
from dlperf_sdk.worker.schedule import learning_rate

MODELS = [ResNet50(), BertBase()]


@st.composite
def bert_options(draw: st.DrawFn) -> BertBaseOptions:
    heads = draw(st.integers(1, 4))
    tokens = draw(st.integers(5, 64))
    return BertBaseOptions(
        sequence_length=tokens,
        layers=draw(st.integers(1, 4)),
        hidden_size=heads * draw(st.integers(1, 8)),
        heads=heads,
        intermediate_size=draw(st.integers(1, 40)),
        predictions_per_sequence=draw(st.integers(1, tokens - 2)),
        vocabulary_size=draw(st.integers(2, 200)),
        dropout=draw(st.floats(0, 0.9)),
        clip_norm=draw(st.none() | st.floats(0, 10)),
    )


resnet_options = st.builds(
    ResNet50Options,
    image_size=st.integers(32, 600),
    num_classes=st.integers(2, 2000),
    label_smoothing=st.floats(0, 0.9),
    last_gamma=st.floats(0, 1),
)
cases = st.tuples(st.just(MODELS[0]), resnet_options) | st.tuples(st.just(MODELS[1]), bert_options())


def resnet_macs(size: int, classes: int) -> tuple[int, int]:
    """All multiply-accumulates and those of conv1, by walking through the network as it is drawn."""

    def after(size: int, kernel: int, stride: int, padding: int) -> int:
        return (size + 2 * padding - kernel) // stride + 1

    size = after(size, 7, 2, 3)
    first = total = 3 * 7 * 7 * 64 * size * size
    size = after(size, 3, 2, 1)
    channels = 64
    for width, blocks, stage_stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for stride in [stage_stride] + [1] * (blocks - 1):
            total += channels * width * size * size
            shrunk = after(size, 3, stride, 1)
            total += width * width * 9 * shrunk * shrunk
            total += width * 4 * width * shrunk * shrunk
            if channels != 4 * width:
                total += channels * 4 * width * after(size, 1, stride, 0) ** 2
            channels, size = 4 * width, shrunk
    return total + channels * classes, first


def bert_macs(model: BertBase, options: BertBaseOptions) -> int:
    """From the manifest: each matrix counts its elements once for every token that it is applied to."""
    total = 0
    for parameter in model.parameters(options):
        if len(parameter.shape) == 2:
            if parameter.name.startswith("encoder."):
                total += parameter.size * options.sequence_length
            elif parameter.name in ("masked_lm.transform.weight", "embeddings.word.weight"):
                total += parameter.size * options.predictions_per_sequence
            elif parameter.name in ("pooler.weight", "next_sentence.weight"):
                total += parameter.size
    head = options.hidden_size // options.heads
    products = options.heads * 2 * options.sequence_length**2 * head
    return total + options.layers * products


def test_published_sizes_of_resnet50() -> None:
    model, options = ResNet50(), ResNet50Options()
    assert model.parameter_count(options) == 25_557_032
    assert sum(term.macs for term in model.flops(options)) == 4_089_184_256
    assert model.flops_per_sample(options) == 24_299_077_632
    shapes = [parameter.shape for parameter in model.parameters(options)]
    assert sum(len(shape) == 4 for shape in shapes) == 53
    assert sum(len(shape) == 1 for shape in shapes) == 2 * 53 + 1


def test_published_sizes_of_bert_base() -> None:
    model, options = BertBase(), BertBaseOptions()
    assert model.parameter_count(options) == 110_106_428
    assert model.flops_per_sample(options) == 69_928_989_696
    full = attrs.evolve(options, predictions_per_sequence=126)
    assert model.flops_per_sample(full) > 1.2 * model.flops_per_sample(options)


@given(resnet_options)
def test_resnet50_arithmetic(options: ResNet50Options) -> None:
    macs, first = resnet_macs(options.image_size, options.num_classes)
    assert sum(term.macs for term in ResNet50().flops(options)) == macs
    assert ResNet50().flops_per_sample(options) == 2 * (3 * macs - first)


@given(bert_options())
def test_bert_base_arithmetic(options: BertBaseOptions) -> None:
    model = BertBase()
    assert model.flops_per_sample(options) == 6 * bert_macs(model, options)


@given(cases)
def test_manifest_is_consistent(case: tuple[Model, Any]) -> None:
    model, options = case
    manifest = model.parameters(options)
    assert len({parameter.name for parameter in manifest}) == len(manifest)
    assert model.parameter_count(options) == sum(math.prod(parameter.shape) for parameter in manifest)
    for parameter in manifest:
        # What has one axis is a bias, a scale or a shift.
        assert parameter.decay == (len(parameter.shape) > 1)
    plain_manifest = [entry_to_dict(parameter) for parameter in manifest]
    assert json.loads(json.dumps(plain_manifest)) == plain_manifest


@given(cases, st.integers(1, 3), st.integers(0, 3))
@settings(deadline=None, max_examples=25)
def test_canonical_batch_fits_the_inputs(case: tuple[Model, Any], size: int, seed: int) -> None:
    model, options = case
    inputs = [entry_to_dict(item) for item in model.inputs(options)]
    batch = canonical.batch(json.loads(json.dumps(inputs)), size, 1, seed)
    assert list(batch) == [item["name"] for item in inputs]
    for item in inputs:
        array = batch[item["name"]]
        assert array.shape == (size, *item["shape"])
        assert array.dtype == item["dtype"]
    if isinstance(options, ResNet50Options):
        assert 0 <= batch["label"].min() <= batch["label"].max() < options.num_classes
        return
    for words in (batch["input_ids"], batch["masked_ids"]):
        assert 0 <= words.min() <= words.max() < options.vocabulary_size
    positions, segments = batch["masked_positions"], batch["segment_ids"]
    assert 1 <= positions.min() <= positions.max() < options.sequence_length - 1
    assert (np.diff(positions, axis=1) > 0).all()
    assert (segments[:, 0] == 0).all()
    assert (segments[:, -1] == 1).all()
    assert (np.diff(segments, axis=1) >= 0).all()
    assert set(batch["next_sentence_label"]) <= {0, 1}


def test_canonical_weights_follow_the_recipe() -> None:
    manifest = [
        entry_to_dict(parameter) for parameter in ResNet50().parameters(ResNet50Options(last_gamma=0.2))
    ]
    wanted = {
        "layer1.0.conv2.weight",
        "layer1.0.bn2.weight",
        "layer1.0.bn3.weight",
        "layer1.0.downsample.1.weight",
    }
    arrays = dict(canonical.weights([item for item in manifest if item["name"] in wanted], 0))
    assert arrays.keys() == wanted
    assert arrays["layer1.0.conv2.weight"].std() == pytest.approx(math.sqrt(2 / (9 * 64)), rel=0.02)
    assert (
        set(arrays["layer1.0.bn2.weight"]) == set(arrays["layer1.0.downsample.1.weight"]) == {np.float32(1)}
    )
    assert set(arrays["layer1.0.bn3.weight"]) == {np.float32(0.2)}
    gammas = [item for item in ResNet50().parameters(ResNet50Options()) if item.name.endswith(".bn3.weight")]
    assert len(gammas) == 16
    assert all(item.init == {"kind": "constant", "value": 0.0} for item in gammas)


@pytest.mark.parametrize(
    ("batch", "held", "full", "steps"),
    [
        (1, 0.001, 0.001, 10_249_336),
        (256, 0.256, 0.256, 40_036),
        (2048, 0.256, 2.048, 5_005),
        (10**9, 0.256, 1e6, 1),
    ],
)
def test_resnet50_optimizer(batch: int, held: float, full: float, steps: int) -> None:
    optimizer = ResNet50().optimizer(ResNet50Options(), batch)
    assert optimizer.kind == "sgd"
    assert optimizer.numbers == {
        "learning_rate": pytest.approx(held),
        "warmup_learning_rate": pytest.approx(full),
        "warmup_steps": steps,
        "momentum": 0.875,
        "weight_decay": 3.0517578125e-05,
        "clip_norm": None,
    }


def test_overridden_optimizer_numbers() -> None:
    numbers = (
        ResNet50().optimizer(ResNet50Options(learning_rate=0.5, momentum=0, weight_decay=0), 4096).numbers
    )
    assert numbers["learning_rate"] == numbers["warmup_learning_rate"] == 0.5
    assert numbers["momentum"] == numbers["weight_decay"] == 0
    assert BertBase().optimizer(BertBaseOptions(), 256).numbers == {
        "learning_rate": 1e-4,
        "warmup_learning_rate": 1e-4,
        "warmup_steps": 10_000,
        "beta1": 0.9,
        "beta2": 0.999,
        "epsilon": 1e-6,
        "weight_decay": 0.01,
        "clip_norm": 1.0,
    }
    for off in (0, 0.0, None):
        assert BertBase().optimizer(BertBaseOptions(clip_norm=off), 1).numbers["clip_norm"] is None


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        (ResNet50Options, {"image_size": 31}),
        (ResNet50Options, {"image_size": 224.0}),
        (ResNet50Options, {"image_size": True}),
        (ResNet50Options, {"image_size": "224"}),
        (ResNet50Options, {"image_size": 10**9}),
        (ResNet50Options, {"num_classes": 1}),
        (ResNet50Options, {"label_smoothing": 1.0}),
        (ResNet50Options, {"label_smoothing": -0.1}),
        (ResNet50Options, {"last_gamma": math.nan}),
        (ResNet50Options, {"last_gamma": None}),
        (ResNet50Options, {"learning_rate": math.inf}),
        (ResNet50Options, {"momentum": 1}),
        (ResNet50Options, {"weight_decay": False}),
        (BertBaseOptions, {"sequence_length": 4, "predictions_per_sequence": 1}),
        (BertBaseOptions, {"sequence_length": 513}),
        (BertBaseOptions, {"sequence_length": 16}),
        (BertBaseOptions, {"predictions_per_sequence": 127}),
        (BertBaseOptions, {"predictions_per_sequence": 0}),
        (BertBaseOptions, {"hidden_size": 770}),
        (BertBaseOptions, {"heads": 0}),
        (BertBaseOptions, {"layers": 10**12}),
        (BertBaseOptions, {"vocabulary_size": 1}),
        (BertBaseOptions, {"dropout": 1}),
        (BertBaseOptions, {"clip_norm": -1}),
        (BertBaseOptions, {"clip_norm": "off"}),
        (BertBaseOptions, {"learning_rate": None}),
    ],
)
def test_impossible_options(options: type[Any], wrong: dict[str, Any]) -> None:
    with pytest.raises(SpecError) as caught:
        options(**wrong)
    assert next(iter(wrong)) in str(caught.value)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_every_option_has_a_description(model: Model) -> None:
    for option in attrs.fields(model.Options):
        assert option.metadata["role"] == "workload"
        assert option.metadata["help"]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_entry_point_carries_the_name(model: Model) -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    module, _, attribute = project["project"]["entry-points"]["dlperf_sdk.models"][model.name].partition(":")
    assert getattr(importlib.import_module(module), attribute) is type(model)


@given(st.floats(1e-6, 10), st.integers(1, 10**6), st.integers(0, 10**5))
def test_warmup_is_a_ramp_from_zero(peak: float, steps: int, step: int) -> None:
    optimizer = {"learning_rate": 7.0, "warmup_learning_rate": peak, "warmup_steps": steps}
    rate = learning_rate(optimizer, "warmup", step)
    assert 0 < rate <= peak
    assert rate == pytest.approx(peak if step >= steps else peak * (step + 1) / steps)
    assert learning_rate(optimizer, "constant", step) == 7.0


def test_unknown_policy() -> None:
    with pytest.raises(ValueError, match="'cosine'"):
        learning_rate({"learning_rate": 1.0}, "cosine", 0)
