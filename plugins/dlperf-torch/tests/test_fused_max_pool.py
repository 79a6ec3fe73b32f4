"""The max-pool's kernels in Triton's interpreter, against torch's: not on a GPU."""

import pytest

torch = pytest.importorskip("torch", reason="the worker half needs torch, which is not in this environment")
pytest.importorskip(
    "triton",
    reason="triton is not in this environment (285 MB; torch's builds for CUDA bring it): `--with-alone triton` "
    "to scripts/in_environment.py lays it beside",
)

SHAPES = [(2, 3, 5, 7), (1, 64, 8, 8), (3, 65, 9, 4), (2, 8, 1, 1), (1, 130, 2, 6), (1, 16, 1, 9)]
# As in test_fused_batch_norm.py: Triton's interpreter cuts bfloat16 off, and a GPU rounds it.
LAST_BIT = {torch.float32: 1e-6, torch.float16: 2**-11, torch.bfloat16: 2**-7}


def drawn(shape, seed):
    """Values with many ties."""
    generator = torch.Generator().manual_seed(seed)
    values = (3 * torch.randn(shape, generator=generator)).round() / 2
    return values.to(memory_format=torch.channels_last)


def pooled(x, dy, second):
    """Output and gradient of this module's, and torch's in float32."""
    from dlperf_torch.worker.fused_max_pool import max_pool

    actual, exact = x.clone().requires_grad_(), x.float().requires_grad_()
    y, again = max_pool(actual)
    assert y.data_ptr() == again.data_ptr()
    torch.autograd.backward([y, again], [dy, second]) if second is not None else y.backward(dy)
    expected = torch.nn.functional.max_pool2d(exact, 3, stride=2, padding=1)
    expected.backward(dy.float() if second is None else dy.float() + second.float())
    assert y.dtype == actual.grad.dtype == x.dtype
    assert y.is_contiguous(memory_format=torch.channels_last)
    return (y, actual.grad), (expected, exact.grad)


@pytest.mark.parametrize("gradients", [1, 2])
@pytest.mark.parametrize("dtype", LAST_BIT, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_it_is_max_pool(shape, dtype, gradients):
    x = drawn(shape, 1).to(dtype)
    small = *shape[:2], (shape[2] + 1) // 2, (shape[3] + 1) // 2
    dy, second = (torch.randn(small, generator=torch.Generator().manual_seed(i)).to(dtype) for i in (2, 3))
    (y, dx), (expected, exact) = pooled(x, dy, second if gradients == 2 else None)
    assert torch.equal(y.float(), expected)
    torch.testing.assert_close(dx.float(), exact, rtol=LAST_BIT[dtype], atol=1e-6)
    assert torch.equal(dx == 0, exact == 0)


@pytest.mark.parametrize("missing", [float("nan"), float("-inf"), float("inf")])
@pytest.mark.parametrize("share", [0.1, 0.6, 1.0])
def test_numbers_that_are_none(missing, share):
    x = drawn((2, 5, 9, 8), 1)
    x[torch.rand(x.shape, generator=torch.Generator().manual_seed(2)) <= share] = missing
    (y, dx), (expected, exact) = pooled(x, 1 + drawn(expected_shape := (2, 5, 5, 4), 3).abs(), None)
    assert y.shape == expected_shape
    torch.testing.assert_close(y, expected, rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(dx, exact, rtol=0, atol=0)


def test_only_the_second_output_is_used():
    from dlperf_torch.worker.fused_max_pool import max_pool

    x, dy = drawn((2, 4, 6, 6), 1), drawn((2, 4, 3, 3), 2)
    gradients = []
    for output in (0, 1):
        leaf = x.clone().requires_grad_()
        max_pool(leaf)[output].backward(dy)
        gradients.append(leaf.grad)
    assert torch.equal(*gradients)


def test_strangely_laid_out_images_are_the_same_images():
    x, dy = drawn((2, 4, 6, 5), 1), drawn((2, 4, 3, 3), 2)
    (y, dx), _ = pooled(x.contiguous(), dy.contiguous(), None)
    (expected, exact), _ = pooled(x, dy, None)
    assert torch.equal(y, expected)
    assert torch.equal(dx, exact)
