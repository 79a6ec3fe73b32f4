"""Bias, dropout, residual sum and layer norm in one Triton kernel each way, and bias and GELU in another.

A matrix of rows (tokens) and columns (features) is read and written as few times as there can be: `add_norm` reads its
two inputs and writes the output and the normalized values; its backward pass reads the output's two gradients and the
normalized values, and writes two gradients. Sums over the rows, which are the gradients of weight and biases, are
computed on the way; no atomics, so that the order of each sum is fixed.
"""

import torch
import triton
import triton.language as tl

from dlperf_torch.worker.branches import output_twice, sort_gradients
from dlperf_torch.worker.dropout import keep, threshold
from dlperf_torch.worker.strips import add_strips, split

ROWS, WARPS = 2, 4
GELU_TILE = {"ROWS": 32, "COLUMNS": 128}
STRIPS = 528
"""Maximum number of programs of a reduction: four for each of an H200's 132 multiprocessors."""


@triton.jit
def _norm_forward(
    x, bias, shortcut, weight, shift, seeds, y, normalized, scales, rows, columns, epsilon, dropped, grow,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    r, c = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    index = r[:, None] * columns + c[None, :]
    real = c < columns
    inside = (r < rows)[:, None] & real[None, :]
    values = (
        tl.load(x + index, inside, 0.0).to(tl.float32) + tl.load(bias + c, real, 0.0).to(tl.float32)[None, :]
    )
    values = tl.where(keep(seeds, index, dropped), values * grow, 0.0)
    values += tl.load(shortcut + index, inside, 0.0).to(tl.float32)
    values = tl.where(inside, values, 0.0)
    values -= (tl.sum(values, 1) / columns)[:, None]
    values = tl.where(inside, values, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(values * values, 1) / columns + epsilon)
    values *= scale[:, None]
    tl.store(normalized + index, values.to(normalized.dtype.element_ty), inside)
    tl.store(scales + r, scale, r < rows)
    values *= tl.load(weight + c, real, 0.0).to(tl.float32)[None, :]
    values += tl.load(shift + c, real, 0.0).to(tl.float32)[None, :]
    tl.store(y + index, values.to(y.dtype.element_ty), inside)


@triton.jit
def _norm_backward(
    dy, other, normalized, scales, weight, seeds, dx, d_shortcut, parts, rows, columns, strip, dropped, grow,
    TWO: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Compute both inputs' gradients, and sums over a strip of rows for weight, shift and bias."""
    first, c = tl.program_id(0) * strip, tl.arange(0, COLUMNS)
    real = c < columns
    gamma = tl.load(weight + c, real, 0.0).to(tl.float32)[None, :]
    d_weight = tl.zeros((ROWS, COLUMNS), tl.float32)
    d_shift, d_bias = d_weight, d_weight
    for row in range(first, tl.minimum(first + strip, rows), ROWS):
        r = row + tl.arange(0, ROWS)
        index = r[:, None] * columns + c[None, :]
        inside = (r < rows)[:, None] & real[None, :]
        gradient = tl.load(dy + index, inside, 0.0).to(tl.float32)
        if TWO:
            gradient += tl.load(other + index, inside, 0.0).to(tl.float32)
        values = tl.load(normalized + index, inside, 0.0).to(tl.float32)
        d_weight += gradient * values
        d_shift += gradient
        gradient *= gamma
        mean, projection = tl.sum(gradient, 1) / columns, tl.sum(gradient * values, 1) / columns
        scale = tl.load(scales + r, r < rows, 0.0)
        gradient = (gradient - mean[:, None] - values * projection[:, None]) * scale[:, None]
        tl.store(d_shortcut + index, gradient.to(d_shortcut.dtype.element_ty), inside)
        gradient = tl.where(keep(seeds, index, dropped) & inside, gradient * grow, 0.0)
        tl.store(dx + index, gradient.to(dx.dtype.element_ty), inside)
        d_bias += gradient
    offsets = tl.program_id(0) * columns + c
    step = tl.num_programs(0) * columns
    tl.store(parts + offsets, tl.sum(d_weight, 0), real)
    tl.store(parts + step + offsets, tl.sum(d_shift, 0), real)
    tl.store(parts + 2 * step + offsets, tl.sum(d_bias, 0), real)


@triton.jit
def _gelu_parts(x):
    """Return the normal distribution function Φ(x), and x φ(x), for float32 values.

    erf is formula 7.1.26 of Abramowitz and Stegun (1964), whose error is below 1.5e-7; its exponential is that of φ.
    """
    size = tl.abs(x) * 0.7071067811865476
    bell = tl.exp(-size * size)
    t = 1.0 / (1.0 + 0.3275911 * size)
    tail = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t
    half = 0.5 * tail * bell
    return tl.where(x < 0.0, half, 1.0 - half), x * bell * 0.3989422804014327


@triton.jit
def _gelu_forward(x, bias, y, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    r, c = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    index = r[:, None].to(tl.int64) * columns + c[None, :]
    inside = (r < rows)[:, None] & (c < columns)[None, :]
    values = tl.load(x + index, inside, 0.0).to(tl.float32)
    values += tl.load(bias + c, c < columns, 0.0).to(tl.float32)[None, :]
    share, _ = _gelu_parts(values)
    tl.store(y + index, (values * share).to(y.dtype.element_ty), inside)


@triton.jit
def _gelu_backward(dy, x, bias, dx, parts, rows, columns, strip, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    first, c = tl.program_id(0) * strip, tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    shift = tl.load(bias + c, c < columns, 0.0).to(tl.float32)[None, :]
    d_bias = tl.zeros((ROWS, COLUMNS), tl.float32)
    for row in range(first, tl.minimum(first + strip, rows), ROWS):
        r = row + tl.arange(0, ROWS)
        index = r[:, None].to(tl.int64) * columns + c[None, :]
        inside = (r < rows)[:, None] & (c < columns)[None, :]
        share, slope = _gelu_parts(tl.load(x + index, inside, 0.0).to(tl.float32) + shift)
        gradient = tl.load(dy + index, inside, 0.0).to(tl.float32) * (share + slope)
        tl.store(dx + index, gradient.to(dx.dtype.element_ty), inside)
        d_bias += gradient
    tl.store(parts + tl.program_id(0) * columns + c, tl.sum(d_bias, 0), c < columns)


class _AddNorm(torch.autograd.Function):
    """x, bias, shortcut, weight, shift, ε, p, seeds → y twice, for its two uses: autograd adds no gradients then."""

    @staticmethod
    def forward(ctx, x, bias, shortcut, weight, shift, epsilon, p, seeds):
        ctx.set_materialize_grads(False)
        x, shortcut, columns = x.contiguous(), shortcut.contiguous(), x.shape[-1]
        rows = x.numel() // columns
        y, normalized = torch.empty_like(x), torch.empty_like(x)
        scales = torch.empty(rows, device=x.device)
        ctx.dropout = threshold(p), 1 / (1 - p)
        ctx.fixed = {"ROWS": ROWS, "COLUMNS": triton.next_power_of_2(columns), "num_warps": WARPS}
        _norm_forward[(triton.cdiv(rows, ROWS),)](
            x, bias, shortcut, weight, shift, seeds, y, normalized, scales,
            rows, columns, epsilon, *ctx.dropout, **ctx.fixed,
        )  # fmt: skip
        ctx.save_for_backward(normalized, scales, bias, weight, seeds)
        return output_twice(y)

    @staticmethod
    def backward(ctx, *gradients):
        normalized, scales, bias, weight, seeds = ctx.saved_tensors
        dy, other = sort_gradients(gradients)
        dy, rows, columns = dy.contiguous(), len(scales), len(weight)
        strip, strips = split(rows, ROWS, STRIPS)
        dx, d_shortcut = torch.empty_like(dy), torch.empty_like(dy)
        parts = torch.empty(3, strips, columns, device=dy.device)
        _norm_backward[(strips,)](
            dy, dy if other is None else other.contiguous(), normalized, scales, weight, seeds, dx, d_shortcut,
            parts, rows, columns, strip, *ctx.dropout, TWO=other is not None, **ctx.fixed,
        )  # fmt: skip
        d_weight, d_shift, d_bias = add_strips(parts)
        d_weight, d_shift = d_weight.to(weight.dtype), d_shift.to(weight.dtype)
        return dx, d_bias.to(bias.dtype), d_shortcut, d_weight, d_shift, None, None, None


class _Gelu(torch.autograd.Function):
    """x, bias → GELU(x + bias)."""

    @staticmethod
    def forward(ctx, x, bias):
        x, columns = x.contiguous(), len(bias)
        y, rows = torch.empty_like(x), x.numel() // columns
        grid = triton.cdiv(rows, GELU_TILE["ROWS"]), triton.cdiv(columns, GELU_TILE["COLUMNS"])
        _gelu_forward[grid](x, bias, y, rows, columns, **GELU_TILE)
        ctx.save_for_backward(x, bias)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, bias = ctx.saved_tensors
        dx, columns = torch.empty_like(x), len(bias)
        rows, blocks = x.numel() // columns, triton.cdiv(columns, GELU_TILE["COLUMNS"])
        strip, strips = split(rows, GELU_TILE["ROWS"], 2 * STRIPS // blocks)
        parts = torch.empty(1, strips, columns, device=x.device)
        _gelu_backward[strips, blocks](
            dy.contiguous(), x, bias, dx, parts, rows, columns, strip, num_warps=8, **GELU_TILE
        )
        (d_bias,) = add_strips(parts)
        return dx, d_bias.to(bias.dtype)


def add_norm(x, bias, shortcut, norm, p, seeds):
    """Return the layer norm of shortcut + dropout(x + bias) as a pair of tensors, (…, H), in x's type.

    Both tensors have the same values in the same memory, so nothing may change them in place. One is for the next block
    and one for the shortcut around it; the backward pass adds their gradients.

    Args:
        x: Output of a linear layer without bias, (…, H), on a GPU.
        bias: The bias to add to x, (H,).
        shortcut: Tensor (…, H), in x's type.
        norm: An `nn.LayerNorm` over H.
        p: Probability of dropout, 0 ≤ p < 1.
        seeds: Two int32 seeds of this dropout, from `dropout.draw_seeds`.
    """
    return _AddNorm.apply(x, bias, shortcut, norm.weight, norm.bias, norm.eps, p, seeds)


def gelu(x, bias):
    """Return GELU(x + bias), (…, H), in x's type: (x + bias) · Φ(x + bias), with Φ accurate to 1.5e-7.

    `x` is a tensor (…, H) on a GPU, and `bias` a tensor (H,).
    """
    return _Gelu.apply(x, bias)
