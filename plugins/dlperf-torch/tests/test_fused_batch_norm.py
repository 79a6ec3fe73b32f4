"""The fused batch norm's kernels in Triton's interpreter, against float64: not on a GPU."""

import os
import subprocess
import sys
from functools import partial

import pytest

torch = pytest.importorskip("torch", reason="the worker half needs torch, which is not in this environment")
pytest.importorskip(
    "triton",
    reason="triton is not in this environment (285 MB; torch's builds for CUDA bring it): `--with-alone triton` "
    "to scripts/in_environment.py lays it beside",
)

# Half of the last bit of the type that values are rounded to at the end, relative; all of it for bfloat16, which
# Triton's interpreter cuts off and a GPU rounds. The float32 sums add what a test allows absolutely.
LAST_BIT = {torch.float32: 2e-6, torch.float16: 2**-11, torch.bfloat16: 2**-7}
SHAPES = [(2, 3, 5, 7), (3, 65, 9, 4), (1, 130, 3, 2), (5, 64, 8, 8), (2, 1, 1, 1)]
WAYS = ["plain", "relu", "residual", "two gradients", "second gradient"]


def drawn(shape, seed, dtype):
    """Values of this type, far from zero in their mean: sums of squares would lose the variance."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
    return values.to(memory_format=torch.channels_last) if len(shape) == 4 else values


def computed(norm, x, residual, dy, way):
    """Output, gradients of x, γ, β and the residual, running mean and variance."""
    x = x.clone().requires_grad_()
    if way in ("plain", "relu"):
        residual, y = None, norm(x) if way == "plain" else norm.activate(x)
        y.backward(dy)
    else:
        residual = residual.clone().requires_grad_()
        y, again = norm.activate_sum(x, residual)
        assert torch.equal(y, again)
        if way == "two gradients":
            torch.autograd.backward([y, again], [dy, dy.roll(1, 0)])
        else:
            (y if way == "residual" else again).backward(dy)
    actual = {"y": y.detach(), "dx": x.grad, "dgamma": norm.weight.grad, "dbeta": norm.bias.grad}
    if residual is not None:
        actual["dresidual"] = residual.grad
    return {**actual, "mean": norm.running_mean, "variance": norm.running_var}


def made(kind, channels, dtype=torch.float32):
    norm = kind(channels, eps=1e-5, momentum=0.1)
    norm.num_batches_tracked = None
    with torch.no_grad():
        norm.weight.copy_(1 + 0.3 * drawn((channels,), 4, torch.float32))
        norm.bias.copy_(0.5 * drawn((channels,), 5, torch.float32))
        norm.running_mean.copy_(drawn((channels,), 6, torch.float32))
    return norm.to(dtype)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", LAST_BIT, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_it_is_batch_norm(shape, dtype, way):
    from dlperf_torch.worker.fused_batch_norm import FusedBatchNorm
    from dlperf_torch.worker.levers import BatchNorm

    x, residual, dy = (drawn(shape, seed, dtype) for seed in (1, 2, 3))
    if way == "two gradients":
        dy = (8 * dy).round() / 8  # so that the sum of two is exact in all types
    actual = computed(made(FusedBatchNorm, shape[1]), x + 3, residual, dy, way)
    exact = computed(
        made(BatchNorm, shape[1], torch.float64), (x + 3).double(), residual.double(), dy.double(), way
    )
    assert actual["y"].is_contiguous(memory_format=torch.channels_last)
    for name, value in actual.items():
        stored = dtype if name in ("y", "dx", "dresidual") else torch.float32
        assert value.dtype == stored, name
        allowed = LAST_BIT[stored]
        scale = exact[name].abs().max().item()
        torch.testing.assert_close(
            value.double(),
            exact[name],
            rtol=allowed,
            atol=max(scale, 1.0) * 4e-6,
            msg=lambda output, name=name: f"{name}: {output}",
        )


@pytest.mark.parametrize("strips", [1, 3])
def test_sums_are_merged_from_strips(monkeypatch, strips):
    from dlperf_torch.worker import fused_batch_norm

    monkeypatch.setattr(fused_batch_norm, "STRIPS", strips)
    test_it_is_batch_norm((5, 6, 8, 8), torch.float32, "residual")


def test_more_strips_than_a_tile_has_rows():
    """Of `_moments` 766, of `_sums` 383, the last of both short."""
    test_it_is_batch_norm((5, 3, 70, 70), torch.float32, "relu")


def test_strangely_laid_out_images_are_the_same_images():
    from dlperf_torch.worker.fused_batch_norm import FusedBatchNorm

    x, residual, dy = (drawn((2, 4, 3, 5), seed, torch.float32) for seed in (1, 2, 3))
    expected = computed(made(FusedBatchNorm, 4), x, residual, dy, "residual")
    one = dy.flatten(1)[:, :1, None, None].expand(dy.shape)  # what a mean's backward pass gives out
    actual = computed(
        made(FusedBatchNorm, 4), x.contiguous(), residual.contiguous(), dy.contiguous(), "residual"
    )
    assert all(torch.equal(actual[name], expected[name]) for name in expected)
    actual = computed(made(FusedBatchNorm, 4), x, residual, one, "residual")
    expected = computed(made(FusedBatchNorm, 4), x, residual, one.clone(), "residual")
    assert all(torch.equal(actual[name], expected[name]) for name in expected)


def test_missing_numbers_stay_none():
    from dlperf_torch.worker.fused_batch_norm import FusedBatchNorm

    x = drawn((2, 3, 4, 4), 1, torch.float32)
    x[0, 1, 2, 3] = float("nan")
    y = made(FusedBatchNorm, 3).activate(x)
    assert y[:, 1].isnan().all()
    assert y[:, ::2].isfinite().all()


def test_one_value_has_no_variance():
    from dlperf_torch.worker.fused_batch_norm import FusedBatchNorm

    with pytest.raises(ValueError, match="more than one value per channel"):
        made(FusedBatchNorm, 3)(torch.zeros(1, 3, 1, 1))


def test_the_two_outputs_share_memory():
    """And autograd adds nothing: each gradient reaches the function by itself."""
    from dlperf_torch.worker.fused_batch_norm import FusedBatchNorm

    x, residual = (drawn((2, 3, 4, 4), seed, torch.float32) for seed in (1, 2))
    y, again = made(FusedBatchNorm, 3).activate_sum(x, residual)
    assert y.data_ptr() == again.data_ptr()
    assert y.stride() == again.stride()
    assert y.grad_fn is again.grad_fn
    assert (y.output_nr, again.output_nr) == (0, 1)


@pytest.mark.parametrize("stride", [1, 2])
def test_a_bottleneck_as_a_whole(stride):
    """With a shortcut of its own and with the input itself: values, and all gradients."""
    from dlperf_torch.worker.fused_batch_norm import FusedBatchNorm
    from dlperf_torch.worker.resnet50 import Bottleneck, batch_norm

    inputs = 24 if stride == 2 else 32
    torch.manual_seed(0)
    plain = Bottleneck(inputs, 8, stride).double().to(memory_format=torch.channels_last)
    with torch.no_grad():
        for name, values in plain.named_parameters():
            if "bn" in name or name.startswith("downsample.1"):
                values.add_(0.3 * torch.randn_like(values))
    fused = Bottleneck(inputs, 8, stride, partial(batch_norm, kind=FusedBatchNorm))
    fused.load_state_dict(plain.state_dict())
    fused = fused.to(memory_format=torch.channels_last)
    x = drawn((3, inputs, 9, 7), 1, torch.float32)
    exact, actual = x.double().requires_grad_(), x.clone().requires_grad_()
    (left, _), (right, _) = plain((exact, exact)), fused((actual, actual))
    dy = drawn(tuple(left.shape), 2, torch.float32)
    left.backward(dy.double())
    right.backward(dy)
    close = partial(torch.testing.assert_close, rtol=1e-4, atol=2e-5)
    close(right.double(), left)
    close(actual.grad.double(), exact.grad)
    for (name, one), (same, other) in zip(fused.named_parameters(), plain.named_parameters(), strict=True):
        assert name == same
        close(one.grad.double(), other.grad, msg=lambda output, name=name: f"{name}: {output}")
    for one, other in zip(fused.buffers(), plain.buffers(), strict=True):
        close(one.double(), other)


def test_the_option_puts_it_everywhere(make_trainer):
    from dlperf_torch.worker.fused_batch_norm import FusedBatchNorm
    from dlperf_torch.worker.fused_max_pool import max_pool

    network = make_trainer("resnet50", framework_options={"fused_batch_norm": True}).network
    norms = [module for module in network.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    assert len(norms) == 53
    assert all(isinstance(norm, FusedBatchNorm) for norm in norms)
    assert network.max_pool is max_pool


COMPILES = """\
from dlperf_torch.worker import fused_batch_norm, fused_max_pool
from triton import compile
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

NUMBERS = dict.fromkeys(("rows", "channels", "strip", "strips", "windows", "height", "width"), "i32")
NUMBERS |= {"momentum": "fp32", "epsilon": "fp32", "taps": "*i8"}
IMAGES = dict.fromkeys(("x", "y", "dx", "dy", "second", "residual", "masked"), "*bf16")
TILES = {
    fused_batch_norm._moments: [fused_batch_norm.MOMENTS_TILE],
    fused_batch_norm._finish: [fused_batch_norm.STRIPS_TILE],
    **{
        getattr(fused_batch_norm, name): [fused_batch_norm._tile_for(channels) for channels in (64, 128)]
        for name in ("_output", "_sums", "_input_gradient")
    },
    fused_max_pool._maximum: [fused_max_pool.TILE],
    fused_max_pool._gather: [fused_max_pool.TILE],
}
for kernel, tiles in TILES.items():
    for tile in tiles:
        chosen = tile | {"RELU": True, "RESIDUAL": True, "SECOND": True}
        types = {
            arg: "constexpr" if arg in chosen else (NUMBERS | IMAGES).get(arg, "*fp32") for arg in kernel.arg_names
        }
        fixed = {(i,): chosen[arg] for i, arg in enumerate(kernel.arg_names) if arg in chosen}
        options = {"num_warps": tile.get("num_warps", 4)}
        made = compile(ASTSource(kernel, types, fixed), target=GPUTarget("cuda", 90, 32), options=options)
        assert made.asm["cubin"], kernel
    print(kernel.fn.__name__)
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
    assert len(done.stdout.split()) == 7
