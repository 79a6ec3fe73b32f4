"""One replica's training: against the formulas in float64, and what the record will say about it."""

import itertools

import pytest
from dlperf_torch.framework import Torch

from dlperf_sdk.harness.in_process import MODELS, summarize_traced_steps
from dlperf_sdk.worker.digest import digest_of

torch = pytest.importorskip("torch", reason="the worker half needs torch, which is not in this environment")


def losses(trainer, steps, batch=None):
    batch = trainer.canonical_batch() if batch is None else batch
    taken = [trainer.step(batch) for _ in range(steps)]
    # Read late: a handle must survive the steps that follow it.
    return [trainer.read_loss(step.loss)[0] for step in taken]


def digest(trainer):
    return digest_of(trainer.request.parameters, trainer.parameters(0))


def reference_losses(trainer, steps):
    """The same training in float64, with the optimizer's formulas as the models' pages state them."""
    network = trainer.network.double()
    numbers = trainer.request.optimizer
    decay = {entry["name"]: numbers["weight_decay"] * entry["decay"] for entry in trainer.request.parameters}
    batch = {
        name: value.double() if value.is_floating_point() else value
        for name, value in trainer.canonical_batch().items()
    }
    actual, state = [], {name: [0.0, 0.0] for name in decay}
    for t in range(1, steps + 1):
        loss = trainer.loss(trainer.outputs(network, batch), batch)
        actual.append(loss.item())
        parameters = [network.get_parameter(name) for name in decay]
        gradients = dict(zip(decay, torch.autograd.grad(loss, parameters), strict=True))
        norm = sum(g.square().sum() for g in gradients.values()).sqrt()
        clip = min(1.0, numbers["clip_norm"] / norm.item()) if numbers["clip_norm"] else 1.0
        for name, gradient in gradients.items():
            parameter, g = network.get_parameter(name).data, clip * gradient
            if numbers["kind"] == "sgd":
                state[name][0] = numbers["momentum"] * state[name][0] + g + decay[name] * parameter
                parameter -= numbers["learning_rate"] * state[name][0]
            else:
                b1, b2 = numbers["beta1"], numbers["beta2"]
                m = state[name][0] = b1 * state[name][0] + (1 - b1) * g
                v = state[name][1] = b2 * state[name][1] + (1 - b2) * g * g
                ratio = m / (1 - b1**t) / ((v / (1 - b2**t)).sqrt() + numbers["epsilon"])
                parameter -= numbers["learning_rate"] * (ratio + decay[name] * parameter)
    return actual


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("resnet50", {"learning_rate": 0.02, "weight_decay": 0.01}),
        ("bert-base", {"learning_rate": 1e-3, "weight_decay": 0.1, "clip_norm": 0.5}),
        ("bert-base", {"learning_rate": 1e-3, "clip_norm": None}),
    ],
)
def test_fp32_follows_the_formulas_in_float64(make_trainer, model, options):
    expected = reference_losses(make_trainer(model, options=options), 4)
    assert losses(make_trainer(model, options=options), 4) == pytest.approx(expected, rel=2e-5)
    assert expected[-1] < expected[0]


def test_label_smoothing_is_the_published_formula(make_trainer):
    trainer = make_trainer("resnet50", options={"label_smoothing": 0.3})
    logits = torch.randn(4, 10, generator=torch.Generator().manual_seed(1))
    label = trainer.canonical_batch()["label"]
    minus_log = -logits.log_softmax(1)
    expected = (0.7 * minus_log[torch.arange(4), label] + 0.3 * minus_log.mean(1)).mean()
    torch.testing.assert_close(trainer.loss((logits,), {"label": label}), expected)


def test_the_warm_up_policy_moves_the_rate(make_trainer):
    trainer = make_trainer("bert-base")
    trainer.request.optimizer.update(policy="warmup", warmup_steps=4)
    rates = []
    for _ in range(5):
        losses(trainer, 1)
        decaying, other = (group["lr"] for group in trainer.optimizer.param_groups)
        assert decaying == other
        rates.append(other)
    assert rates == pytest.approx([0.25e-4, 0.5e-4, 0.75e-4, 1e-4, 1e-4])


@pytest.mark.parametrize("model", MODELS)
def test_deviation_reveals_the_precision(make_trainer, model):
    narrow = (("amp-bf16", 1e-3, 1e-1), ("amp-fp16", 1e-4, 1e-2), ("fp16", 1e-4, 1e-2))
    for precision, low, high in (("fp32", 0.0, 1e-5), *narrow):
        trainer = make_trainer(model, precision=precision)
        assert low <= trainer.deviation() <= high
        assert trainer.observed()["precision"] == precision


@pytest.mark.parametrize("precision", ["amp-fp16", "amp-bf16"])
def test_a_precision_without_effect_is_seen(make_trainer, monkeypatch, precision):
    trainer = make_trainer("bert-base", precision=precision)
    monkeypatch.setattr(trainer, "autocast", lambda: torch.autocast("cpu", enabled=False))
    assert trainer.deviation() < 1e-5
    assert trainer.observed()["precision"] == "fp32"


@pytest.mark.parametrize("model", MODELS)
def test_fp16_updates_float32_master_weights(make_trainer, model):
    trainer = make_trainer(model, precision="fp16")
    losses(trainer, 2)
    own = dict(trainer.network.named_parameters())
    norms = {name for name, parameter in own.items() if parameter.dtype == torch.float32}
    assert all(".bn" in name or "downsample.1" in name or name.startswith("bn1.") for name in norms)
    assert bool(norms) == (model == "resnet50")
    for name, values in trainer.parameters(0):
        master = torch.from_numpy(values.copy())
        assert torch.equal(own[name], master.to(own[name].dtype))
        if values.size > 1000 and name not in norms:
            assert not torch.equal(own[name].float(), master)  # the master has what float16 cannot hold


@pytest.mark.parametrize("scale", [1.0, 128.0, 2.0**-16])
def test_fp16_loss_scale_changes_only_underflowing_values(make_trainer, scale):
    options = {"clip_norm": None}

    def momentum(**changes):
        trainer = make_trainer("bert-base", options=options, **changes)
        losses(trainer, 1)
        return torch.cat(
            [trainer.optimizer.state[parameter]["exp_avg"].flatten() for parameter in trainer.named.values()]
        )

    exact = momentum()
    distance = ((momentum(precision="fp16", loss_scale=scale) - exact).norm() / exact.norm()).item()
    assert distance > 0.1 if scale < 1 else distance < 0.01


def test_weights_that_are_not_float16_are_seen(make_trainer):
    trainer = make_trainer("bert-base", precision="fp16")
    trainer.deviation()
    trainer.network.pooler.float()
    assert trainer.observed()["precision"] == "amp-fp16+fp16"


@pytest.mark.parametrize(("model", "dropout"), [("resnet50", None), ("bert-base", 0.1)])
def test_deviation_has_no_side_effects(make_trainer, model, dropout):
    options = {} if dropout is None else {"dropout": dropout}
    trainer, other = make_trainer(model, options=options), make_trainer(model, options=options)
    before = {name: value.clone() for name, value in trainer.network.state_dict().items()}
    assert trainer.deviation() == 0.0  # the same arithmetic twice: dropout was off
    after = trainer.network.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    assert all(parameter.grad is None for parameter in trainer.network.parameters())
    torch.manual_seed(3)
    expected = losses(other, 2)
    torch.manual_seed(3)
    assert losses(trainer, 2) == expected


def test_dropout_is_on_while_training(make_trainer):
    trainer = make_trainer("bert-base", options={"dropout": 0.5})
    batch = trainer.canonical_batch()
    with torch.no_grad():
        first, second = (trainer.outputs(trainer.trained, batch)[0] for _ in range(2))
    assert not torch.equal(first, second)


def test_gradient_accumulation_is_one_step(make_trainer):
    whole = make_trainer("bert-base")
    parts = make_trainer("bert-base", accumulation=2)
    assert losses(parts, 4) == pytest.approx(losses(whole, 4), rel=1e-6)
    assert parts.step(parts.canonical_batch()).samples == 4


def test_batch_norm_normalizes_each_micro_batch_separately(make_trainer):
    """So the losses are others than the whole batch's, which has the same samples, and they fall all the same."""
    whole, parts = make_trainer("resnet50"), make_trainer("resnet50", accumulation=2)
    actual = losses(parts, 4)
    assert actual != pytest.approx(losses(whole, 4), rel=1e-3)
    assert actual[-1] < actual[0]
    step = parts.step(parts.canonical_batch())
    assert step.samples == whole.step(whole.canonical_batch()).samples


def test_the_layout_shows_where_images_shrink_to_a_pixel(make_trainer):
    """A single pixel lies the same in both."""
    for layout in ("nhwc", "nchw"):
        small = make_trainer("resnet50", layout=layout, options={"image_size": 32})
        small.deviation()
        assert small.observed()["layout"] == layout


def test_layouts_agree(make_trainer):
    nhwc, nchw = make_trainer("resnet50", layout="nhwc"), make_trainer("resnet50", layout="nchw")
    assert nhwc.deviation() == nchw.deviation() == 0.0
    assert (nhwc.observed()["layout"], nchw.observed()["layout"]) == ("nhwc", "nchw")
    assert digest(nhwc) == digest(nchw)
    options = {"learning_rate": 0.02}
    nhwc = make_trainer("resnet50", layout="nhwc", options=options)
    nchw = make_trainer("resnet50", layout="nchw", options=options)
    assert losses(nhwc, 3) == pytest.approx(losses(nchw, 3), rel=2e-5)


def test_skipped_steps_are_counted_and_change_nothing(make_trainer):
    trainer = make_trainer("bert-base", precision="amp-fp16")
    good = trainer.canonical_batch()
    bad = dict(good, masked_weights=torch.zeros_like(good["masked_weights"]))  # 0 / 0
    losses(trainer, 1, good)
    assert trainer.skipped_steps() == 0
    before = digest(trainer)
    losses(trainer, 2, bad)
    assert trainer.skipped_steps() == 2
    assert digest(trainer) == before
    losses(trainer, 1, good)
    assert trainer.skipped_steps() == 2
    assert digest(trainer) != before


def test_a_first_step_that_is_skipped_leaves_no_momentum(make_trainer):
    """Made at the first step, as torch makes it, a fused optimizer's momentum would be whatever its memory held."""
    trainer, untouched = (make_trainer("resnet50", precision="amp-fp16") for _ in range(2))
    before, scaler = digest(trainer), trainer.scaler
    trainer.scaler = torch.amp.GradScaler(trainer.device.type, init_scale=2.0**120)  # all gradients overflow
    losses(trainer, 1)
    assert digest(trainer) == before
    trainer.scaler = scaler
    assert losses(trainer, 3) == losses(untouched, 3)


def test_parameters_are_the_manifests(make_trainer):
    from dlperf_sdk.worker import canonical

    trainer = make_trainer("resnet50")
    wanted = list(canonical.weights(trainer.request.parameters, 0))
    actual = [(name, values.copy()) for name, values in trainer.parameters(0)]
    assert [name for name, _ in actual] == [name for name, _ in wanted]
    assert all((a == b).all() and a.shape == b.shape for (_, a), (_, b) in zip(actual, wanted, strict=True))
    before = digest(trainer)
    losses(trainer, 1)
    assert digest(trainer) != before


def test_running_means_move_by_a_tenth(make_trainer):
    trainer = make_trainer("resnet50")
    assert all(not values.any() for _, values in trainer.running_means(0))
    losses(trainer, 1)
    means = dict(trainer.running_means(0))
    assert len(means) == 53
    assert all(values.any() for name, values in means.items() if name != "bn3")


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("source", ["synthetic", "synthetic-host"])
def test_synthetic_batches_are_the_canonical_one(make_trainer, model, source):
    trainer = make_trainer(model, data={"source": source})
    expected = trainer.canonical_batch()
    for batch in itertools.islice(trainer.batches(), 3):
        assert batch.keys() == expected.keys()
        assert all(torch.equal(batch[name], value) for name, value in expected.items())
        assert all(batch[name].stride() == value.stride() for name, value in expected.items())
    assert trainer.prefetched_batches() == 0


def test_out_of_memory_is_known(make_trainer):
    runtime = make_trainer("bert-base").runtime
    with pytest.raises(RuntimeError) as raised:
        torch.empty(1 << 55, dtype=torch.uint8)
    assert runtime.is_out_of_memory(raised.value)
    assert runtime.is_out_of_memory(MemoryError())
    assert not runtime.is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    assert not runtime.is_out_of_memory(ValueError("CUDA error: out of memory"))
    for output in (
        "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
        "Triton Error [CUDA]: out of memory",
        "backend='inductor' raised:\nOutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    ):
        assert runtime.is_out_of_memory(RuntimeError(output))


def test_missing_algorithm_is_attributed_to_the_allocators_count(make_trainer, monkeypatch):
    """What torch says on a GPU whose memory is full; the count is put into its place here."""
    runtime, failures = make_trainer("bert-base").runtime, {"num_ooms": 0}
    error = RuntimeError("GET was unable to find an engine to execute this computation")
    assert not runtime.is_out_of_memory(error)
    monkeypatch.setattr(runtime, "device", torch.device("cuda", 0))
    monkeypatch.setattr(torch.cuda, "memory_stats", lambda device: failures)
    assert not runtime.is_out_of_memory(error)
    failures["num_ooms"] = 3
    assert runtime.is_out_of_memory(error)


def test_facts(make_trainer):
    facts = make_trainer("bert-base").runtime.facts()
    assert facts["framework_version"] == torch.__version__
    assert facts["threads"] == 1
    assert facts["transport"] is None


# Both are torch's own: on importing inductor, and on looking at the loss function's inputs.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:The .grad attribute:UserWarning")
def test_inductor_is_in_effect(make_trainer):
    eager = make_trainer("bert-base")
    compiled = make_trainer("bert-base", compiler="inductor")
    assert 0.0 < compiled.deviation() < 1e-5  # other kernels round differently
    assert compiled.observed()["compiler"] == "inductor"
    assert compiled.observed()["precision"] == "fp32"
    assert losses(compiled, 3) == pytest.approx(losses(eager, 3), rel=1e-5)


def test_the_trace_shows_operators(make_trainer, tmp_path):
    summary = summarize_traced_steps(make_trainer("bert-base"), Torch, tmp_path)
    names = {operator.name for operator in summary.operators}
    assert "aten::addmm" in names
    assert 0 < summary.busy <= summary.window
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json"]
