"""The kernels of BERT's fused layers in Triton's interpreter, against float64: not on a GPU."""

import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="the worker half needs torch, which is not in this environment")
pytest.importorskip(
    "triton",
    reason="triton is not in this environment (285 MB; torch's builds for CUDA bring it): `--with-alone triton` "
    "to scripts/in_environment.py lays it beside",
)

NUMBERS = {torch.float32: 3e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
"""Type → what rounding to it may change, as a fraction of the largest value."""


def draw(*shape, seed, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def seeds_of(number):
    return torch.tensor([123456789 + number, -9876543 * number], dtype=torch.int32)


def compare(actual, exact, dtype):
    assert actual.keys() == exact.keys()
    for name, value in actual.items():
        scale = exact[name].abs().max().item()
        torch.testing.assert_close(
            value.double(),
            exact[name],
            rtol=0,
            atol=NUMBERS[dtype] * max(scale, 1e-3),
            msg=f"{name}: {{}}".format,
        )


def gradients(function, inputs, dy):
    """The function's outputs for copies of the inputs, and the gradients of the float inputs, by name."""
    inputs = {name: v.clone().requires_grad_() for name, v in inputs.items()}
    outputs = function(**inputs)
    torch.autograd.backward(outputs, dy)
    named = {f"output {i}": output.detach() for i, output in enumerate(outputs)}
    return named | {name: value.grad for name, value in inputs.items()}


def kept_elements(seeds, shape, p):
    """What dropout keeps, as NumPy computes it: MurmurHash3's finalizer with a seed before each multiplication."""
    import numpy

    first, second = seeds.numpy().view(numpy.uint32)
    bits = numpy.arange(numpy.prod(shape), dtype=numpy.uint32) + first
    bits ^= bits >> 16
    bits = bits * numpy.uint32(0x85EBCA6B) + second
    bits ^= bits >> 13
    return torch.from_numpy(bits * numpy.uint32(0xC2B2AE35) >= round(p * 2**32)).reshape(shape)


# Triton's interpreter multiplies matrices of bfloat16 as if they were integers.
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize(("tokens", "p"), [(16, 0.0), (37, 0.1), (128, 0.5)])
def test_attention(tokens, p, dtype):
    from dlperf_torch.worker.fused_attention import attend

    sequences, heads, size = 2, 3, 16
    seeds = seeds_of(tokens)
    mask = torch.ones(sequences, tokens, dtype=torch.int64)
    mask[1, tokens // 2 :] = 0
    inputs = {
        "qkv": draw(sequences, tokens, 3 * heads * size, seed=1, dtype=dtype),
        "bias": draw(3 * heads * size, seed=2, dtype=dtype).float(),
    }
    dy = draw(sequences, tokens, heads * size, seed=3, dtype=dtype)
    kept = kept_elements(seeds, (sequences, heads, tokens, tokens), p)

    def reference(qkv, bias):
        query, key, value = (qkv + bias).unflatten(-1, (3, heads, size)).permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-1, -2) / size**0.5
        scores = scores.masked_fill(mask[:, None, None, :] == 0, float("-inf")).softmax(-1)
        return ((kept * scores / (1 - p)) @ value).transpose(1, 2).flatten(-2)

    def fused(qkv, bias):
        return [attend(qkv + bias.detach().to(dtype), bias, mask, heads, p, seeds)]

    actual = gradients(fused, inputs, [dy])
    exact = gradients(
        lambda qkv, bias: [reference(qkv, bias)], {n: v.double() for n, v in inputs.items()}, [dy.double()]
    )
    assert actual["output 0"].dtype == dtype
    assert actual["bias"].dtype == torch.float32
    compare(actual, exact, dtype)


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
@pytest.mark.parametrize(("rows", "columns", "p"), [(5, 24, 0.0), (9, 130, 0.1), (1, 64, 0.5)])
@pytest.mark.parametrize("uses", [(0, 1), (0,), (1,)], ids=str)
def test_add_norm(monkeypatch, rows, columns, p, dtype, uses):
    from dlperf_torch.worker import fused_add_norm

    monkeypatch.setattr(fused_add_norm, "STRIPS", 2)
    seeds, norm = seeds_of(rows), torch.nn.LayerNorm(columns, eps=1e-5)
    inputs = {
        "x": draw(rows, columns, seed=1, dtype=dtype),
        "bias": draw(columns, seed=2),
        "shortcut": draw(rows, columns, seed=3, dtype=dtype),
        "weight": draw(columns, seed=4),
        "shift": draw(columns, seed=5),
    }
    dy = [draw(rows, columns, seed=6 + use, dtype=dtype) for use in uses]
    kept = kept_elements(seeds, (rows, columns), p)

    def fused(x, bias, shortcut, weight, shift):
        outputs = fused_add_norm._AddNorm.apply(x, bias, shortcut, weight, shift, norm.eps, p, seeds)
        assert outputs[0].data_ptr() == outputs[1].data_ptr()
        assert not outputs[1]._is_view()
        return [outputs[use] for use in uses]

    def reference(x, bias, shortcut, weight, shift):
        y = torch.nn.functional.layer_norm(
            shortcut + kept * (x + bias) / (1 - p), [columns], weight, shift, norm.eps
        )
        return [y for _ in uses]

    compare(
        gradients(fused, inputs, dy),
        gradients(reference, {n: v.double() for n, v in inputs.items()}, [value.double() for value in dy]),
        dtype,
    )


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
@pytest.mark.parametrize("shape", [(5, 24), (70, 130)], ids=str)
def test_gelu(shape, dtype):
    from dlperf_torch.worker.fused_add_norm import gelu

    inputs = {"x": 3 * draw(*shape, seed=1, dtype=dtype), "bias": draw(shape[1], seed=2)}
    dy = draw(*shape, seed=3, dtype=dtype)
    actual = gradients(lambda x, bias: [gelu(x, bias)], inputs, [dy])
    exact = gradients(
        lambda x, bias: [torch.nn.functional.gelu(x + bias)],
        {n: v.double() for n, v in inputs.items()},
        [dy.double()],
    )
    compare(actual, exact, dtype)


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
@pytest.mark.parametrize(("words", "extra"), [(30, 2), (130, 0)])
def test_cross_entropy(monkeypatch, words, extra, dtype):
    """Of rows that lie in a wider matrix, as the padded decoder returns them."""
    from dlperf_torch.worker import fused_cross_entropy

    monkeypatch.setattr(fused_cross_entropy, "COLUMNS", 64)
    inputs = {"logits": 20 * draw(7, words + extra, seed=1, dtype=dtype)}
    labels = torch.tensor([0, 1, words - 1, 5, 5, 3, 2])
    dy = draw(7, seed=2)
    actual = gradients(
        lambda logits: [fused_cross_entropy.cross_entropy(logits[:, :words], labels)], inputs, [dy]
    )
    exact = gradients(
        lambda logits: [torch.nn.functional.cross_entropy(logits[:, :words], labels, reduction="none")],
        {"logits": inputs["logits"].double()},
        [dy.double()],
    )
    assert actual["output 0"].dtype == torch.float32
    compare(actual, exact, dtype)


def test_dropout_keeps_its_share_independently():
    """The share of a million elements, its neighbours, and those of other seeds: within four standard errors."""
    count, p = 1 << 20, 0.1
    first, second = (kept_elements(seeds_of(i), (count,), p).double() for i in (1, 2))
    error = (p * (1 - p) / count) ** 0.5
    assert abs(first.mean() - (1 - p)) < 4 * error
    for other in (second, first.roll(1), first.roll(128), second.roll(1)):
        correlation = ((first - first.mean()) * (other - other.mean())).mean() / (p * (1 - p))
        assert abs(correlation) < 4 / count**0.5


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_training_goes_the_same_way(make_trainer, dropout):
    """In fp16 beside plain fp16 without dropout; with it the loss falls. What is in effect stays what it is."""
    from dlperf_torch.worker import fused_bert

    changes = {"precision": "amp-fp16", "options": {"learning_rate": 1e-3, "dropout": dropout}}
    plain = make_trainer("bert-base", **changes)
    trainer = make_trainer("bert-base", framework_options={"fused_layers": True}, **changes)
    assert isinstance(trainer.network, fused_bert.FusedBert)
    losses = {}
    for name, one in (("plain", plain), ("fused", trainer)):
        batch = one.canonical_batch()
        losses[name] = [one.read_loss(one.step(batch).loss)[0] for _ in range(4)]
    if not dropout:
        assert losses["fused"] == pytest.approx(losses["plain"], rel=1e-2)
    assert losses["fused"][-1] < losses["fused"][0]
    assert 1e-4 <= trainer.deviation() <= 1e-2
    assert trainer.observed()["precision"] == "amp-fp16"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sequence_length": 256}, "at most 128 tokens, and these have 256"),
        ({"hidden_size": 96}, "heads of 16, 32, 64 or 128 features, and these have 24"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(make_trainer, options, words):
    from dlperf_sdk.worker.unsupported import Unsupported

    with pytest.raises(Unsupported, match=words):
        make_trainer("bert-base", options=options, framework_options={"fused_layers": True})


COMPILES = """\
from dlperf_torch.worker import fused_add_norm, fused_attention, fused_cross_entropy, strips
from triton import compile
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

WHOLE = ("rows", "columns", "channels", "strip", "strips", "width", "tokens", "heads", "dropped")
NUMBERS = dict.fromkeys(WHOLE, "i32")
NUMBERS |= dict.fromkeys(("grow", "epsilon", "scale"), "fp32") | {"mask": "*i64", "labels": "*i64", "seeds": "*i32"}
NARROW = ("x", "y", "dx", "dy", "other", "shortcut", "d_shortcut", "normalized", "qkv", "context", "d_context", "d_qkv")
NARROW += ("logits", "d_logits")
TYPES = NUMBERS | dict.fromkeys(NARROW, "*bf16")
KERNELS = {
    fused_attention._forward: {"TOKENS": 128, "SIZE": 64},
    fused_attention._backward: {"TOKENS": 128, "SIZE": 64, "ROWS": 32},
    fused_add_norm._norm_forward: {"ROWS": 2, "COLUMNS": 1024},
    fused_add_norm._norm_backward: {"ROWS": 2, "COLUMNS": 1024, "TWO": True},
    fused_add_norm._gelu_forward: {"ROWS": 32, "COLUMNS": 128},
    fused_add_norm._gelu_backward: {"ROWS": 32, "COLUMNS": 128},
    strips._add: strips.TILE,
    fused_cross_entropy._forward: {"COLUMNS": 4096},
    fused_cross_entropy._backward: {"COLUMNS": 4096},
}
for kernel, fixed in KERNELS.items():
    types = {name: "constexpr" if name in fixed else TYPES.get(name, "*fp32") for name in kernel.arg_names}
    constants = {(i,): fixed[name] for i, name in enumerate(kernel.arg_names) if name in fixed}
    options = {"num_warps": 8 if "gelu" in kernel.__name__ else 4}
    made = compile(ASTSource(kernel, types, constants), target=GPUTarget("cuda", 90, 32), options=options)
    assert made.asm["cubin"], kernel
    print(kernel.__name__)
"""


def test_every_kernel_compiles_for_a_gpu(tmp_path):
    """To an H200's machine code, for which Triton needs no GPU; in a process that does not interpret."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-c", COMPILES],
        env=environment | {"PYTHONPATH": os.pathsep.join(sys.path), "TRITON_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == 9
