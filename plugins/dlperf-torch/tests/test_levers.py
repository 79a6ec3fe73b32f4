"""The named optimizations: each computes the same thing, and one that cannot is refused before anything is measured."""

import pytest

from dlperf_sdk.harness.in_process import MODELS
from dlperf_sdk.worker.unsupported import Unsupported

torch = pytest.importorskip("torch", reason="the worker half needs torch, which is not in this environment")

CPU_ATTENTION = ("flash", "math")


@pytest.fixture(autouse=True)
def torchs_own_choice():
    yield
    from dlperf_torch.worker import levers

    levers.allow_attention("auto")


def losses(trainer, steps=4):
    batch = trainer.canonical_batch()
    taken = [trainer.step(batch) for _ in range(steps)]
    return [trainer.read_loss(step.loss)[0] for step in taken]


@pytest.mark.parametrize(
    ("model", "lever"),
    [
        ("resnet50", {"fused_optimizer": False}),
        ("resnet50", {"batch_norm_fp32": True}),
        ("bert-base", {"fused_optimizer": False}),
        ("bert-base", {"packed_qkv": True}),
        ("bert-base", {"vocabulary_multiple": 64}),
        *(("bert-base", {"attention": name}) for name in CPU_ATTENTION),
    ],
)
def test_training_goes_the_same_way(make_trainer, model, lever):
    options = {"learning_rate": 0.02} if model == "resnet50" else {"learning_rate": 1e-3}
    expected = losses(make_trainer(model, options=options))
    trainer = make_trainer(model, options=options, framework_options=lever)
    assert losses(trainer) == pytest.approx(expected, rel=2e-5)
    assert expected[-1] < expected[0]
    names = [name for name, _ in trainer.parameters(0)]
    assert names == [entry["name"] for entry in trainer.request.parameters]


@pytest.mark.parametrize("model", MODELS)
def test_all_of_a_models_levers_together(make_trainer, model):
    """In mixed precision, where they are meant to help: the evidence still names it."""
    lever = (
        {"batch_norm_fp32": True}
        if model == "resnet50"
        else {"packed_qkv": True, "vocabulary_multiple": 64, "attention": "math"}
    )
    trainer = make_trainer(model, precision="amp-bf16", framework_options=lever)
    assert 1e-3 <= trainer.deviation() <= 1e-1
    assert trainer.observed()["precision"] == "amp-bf16"
    actual = losses(trainer)
    assert actual[-1] < actual[0]


def test_wide_batch_norm_keeps_the_input_type():
    from dlperf_torch.worker.levers import BatchNormFp32

    x = torch.randn(4, 3, 5, 5, generator=torch.Generator().manual_seed(1)).to(torch.bfloat16)
    norm = BatchNormFp32(3)
    y = norm(x)
    assert y.dtype == torch.bfloat16
    exact = torch.nn.BatchNorm2d(3)(x.float())
    assert torch.equal(y, exact.to(torch.bfloat16))
    torch.testing.assert_close(norm.running_mean, 0.1 * x.float().mean((0, 2, 3)))


@pytest.mark.parametrize("multiple", [1, 2, 7, 64])
def test_padded_outputs_leave_no_trace(multiple):
    from dlperf_torch.worker.levers import apply_padded_linear

    def computed(apply):
        generator = torch.Generator().manual_seed(2)
        x, weight, bias = (
            torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()
            for shape in ((5, 8), (30, 8), (30,))
        )
        y = apply(x, weight, bias)
        loss = torch.nn.functional.cross_entropy(y, torch.arange(5))
        return (y, loss, *torch.autograd.grad(loss, (x, weight, bias)))

    expected = computed(torch.nn.functional.linear)
    for actual, right in zip(computed(lambda *of: apply_padded_linear(*of, multiple)), expected, strict=True):
        torch.testing.assert_close(actual, right, rtol=1e-13, atol=1e-15)


def test_packed_layers_are_the_layers():
    from dlperf_torch.worker.levers import apply_packed

    torch.manual_seed(0)
    layers = [torch.nn.Linear(8, size).double() for size in (8, 8, 5)]
    x = torch.randn(3, 4, 8, dtype=torch.float64)
    for actual, layer in zip(apply_packed(x, layers), layers, strict=True):
        torch.testing.assert_close(actual, layer(x), rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize(
    ("model", "lever", "changes", "words"),
    [
        ("bert-base", {"attention": "cudnn"}, {}, "attention cudnn cannot"),
        (
            "bert-base",
            {"attention": "cudnn"},
            {"options": {"dropout": 0.1}},
            "round dropout 0.1 to sixteenths",
        ),
        ("bert-base", {"attention": "efficient"}, {}, "attention efficient cannot"),
        ("bert-base", {"attention": "flash"}, {"options": {"dropout": 0.1}}, "and dropout 0.1"),
    ],
)
def test_attention_that_cannot_be_is_refused(make_trainer, model, lever, changes, words):
    with pytest.raises(Unsupported, match=words):
        make_trainer(model, framework_options=lever, **changes)


@pytest.mark.parametrize(
    ("model", "name"), [("resnet50", "fused_batch_norm"), ("bert-base", "fused_layers")], ids=str
)
def test_kernels_in_triton_need_it(monkeypatch, model, name):
    """Said of a GPU's case, which needs no GPU; what is not asked for is left out."""
    from conftest import make_request
    from dlperf_torch.worker import levers

    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    request = make_request(model, framework_options={name: True}, device="cuda")
    with pytest.raises(Unsupported, match=name + " needs triton, which torch's builds"):
        levers.settle(request)
    assert levers.settle(make_request(model, device="cuda")).framework_options[name] is False


GRAPH = {"cuda_graph": True, "vocabulary_multiple": 64}
NARROW = {"device": "cuda", "precision": "amp-bf16"}


@pytest.mark.parametrize(
    ("model", "options", "changes", "chosen"),
    [
        ("resnet50", {}, {}, {}),
        ("bert-base", {}, {}, {}),
        ("resnet50", {}, {"device": "cuda"}, GRAPH | {"fused_batch_norm": True}),
        ("resnet50", {}, {"device": "cuda", "compiler": "inductor"}, GRAPH),
        ("resnet50", {}, {"device": "cuda", "layout": "nchw"}, GRAPH),
        ("resnet50", {}, {"device": "cuda", "devices_per_node": 2}, {"vocabulary_multiple": 64}),
        ("resnet50", {"cuda_graph": False}, {"device": "cuda"}, {"vocabulary_multiple": 64}),
        ("resnet50", {"fused_batch_norm": False}, {"device": "cuda"}, GRAPH),
        ("resnet50", {"batch_norm_fp32": True}, {"device": "cuda"}, GRAPH),
        ("resnet50", {"fused_optimizer": False}, {"device": "cuda"}, {"vocabulary_multiple": 64}),
        ("bert-base", {}, {"device": "cuda"}, GRAPH),
        ("bert-base", {}, NARROW, GRAPH | {"fused_layers": True}),
        ("bert-base", {"packed_qkv": True}, NARROW, GRAPH),
        ("bert-base", {"attention": "math"}, NARROW, GRAPH),
        ("bert-base", {}, {**NARROW, "options": {"sequence_length": 256}}, GRAPH),
        ("bert-base", {}, {**NARROW, "options": {"hidden_size": 96}}, GRAPH),
        (
            "bert-base",
            {"vocabulary_multiple": 8},
            NARROW,
            GRAPH | {"fused_layers": True, "vocabulary_multiple": 8},
        ),
    ],
)
def test_what_is_left_open_is_chosen(monkeypatch, model, options, changes, chosen):
    from conftest import make_request
    from dlperf_torch.worker import levers

    monkeypatch.setattr("importlib.util.find_spec", lambda name: "triton")
    request = make_request(model, framework_options=options, **changes)
    settled = levers.settle(request)
    expected = {
        "cuda_graph": False,
        "fused_batch_norm": False,
        "fused_layers": False,
        "vocabulary_multiple": 1,
    }
    assert settled == request._replace(
        framework_options={**request.framework_options, **expected, **chosen, **options}
    )


def test_the_plain_network_may_attend_as_it_likes(make_trainer):
    """The reference of the evidence is fp32, which some implementations do not have; afterwards the choice holds."""
    trainer = make_trainer("bert-base", framework_options={"attention": "math"})
    assert not torch.backends.cuda.flash_sdp_enabled()
    trainer.deviation()
    assert torch.backends.cuda.math_sdp_enabled()
    assert not torch.backends.cuda.flash_sdp_enabled()


def test_the_controller_names_the_implementations_of_attention_that_there_are():
    from dlperf_torch.options import ATTENTION
    from dlperf_torch.worker import levers

    assert list(levers.ATTENTION) == list(ATTENTION)


@pytest.mark.parametrize(("dropout", "allowed"), [(0.0, True), (0.125, True), (0.1, False)])
def test_torchs_own_choice_is_among_those_that_keep_the_dropout(make_trainer, dropout, allowed):
    trainer = make_trainer("bert-base", options={"dropout": dropout})
    assert torch.backends.cuda.cudnn_sdp_enabled() is allowed
    assert torch.backends.cuda.flash_sdp_enabled()
    trainer.deviation()
    assert torch.backends.cuda.cudnn_sdp_enabled() is allowed


# Torch's own: on importing inductor, on the loss function's inputs, on a machine with few cores.
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore:The .grad attribute:UserWarning", "ignore::UserWarning"
)
def test_max_autotune_compiles_the_same_network(make_trainer):
    eager = losses(make_trainer("bert-base"), 2)
    tuned = make_trainer("bert-base", compiler="inductor", framework_options={"max_autotune": True})
    assert losses(tuned, 2) == pytest.approx(eager, rel=1e-5)
    assert tuned.observed()["compiler"] == "inductor"
