"""Batch norm, the residual sum and ReLU in as few passes over memory as there can be: Triton, forward and backward.

What it computes is tested in Triton's interpreter. Images lie in channels_last, and are a matrix (rows = B·H·W,
channels) here. In reads and writes of such a matrix, torch's own kernels take 13 for batch norm + ReLU, and 19 with a
residual: 16, and 3 to add the gradients of the two branches that read y (docs/explanation/performance.md counts them).
These take 8 and 12:

    forward     statistics: read x.  Output: read x (and the residual), write y.
    backward    sums: read dy and x (and y and the second dy; write their masked sum, which is the residual's gradient).
                dx: read dy (or the masked sum) and x, write dx.

Statistics are float32, merged as Chan, Golub and LeVeque do (1983), which cancels nothing; threads meet once for each
strip of rows. No atomics: the order of every sum is fixed, and so are its last bits. What ReLU cut off is computed anew
from x.
"""

import torch
import triton
import triton.language as tl

from dlperf_torch.worker.branches import output_twice, sort_gradients
from dlperf_torch.worker.levers import BatchNorm
from dlperf_torch.worker.pixels import to_images, to_matrix
from dlperf_torch.worker.strips import TILE as STRIPS_TILE
from dlperf_torch.worker.strips import add_strips, split

MOMENTS_TILE = {"ROWS": 32, "CHANNELS": 64}
"""Tile of `_moments`, the fastest of those timed on an H200."""
STRIPS = 1024
"""Maximum number of programs of a reduction: about eight for each of an H200's 132 multiprocessors."""


@triton.jit
def _tile(row, rows, channels, ROWS: tl.constexpr, CHANNELS: tl.constexpr):
    """Return offsets and mask of the tile that begins at this row, and the channels with their mask."""
    r = row + tl.arange(0, ROWS)
    c = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    real = c < channels
    return r[:, None].to(tl.int64) * channels + c[None, :], (r < rows)[:, None] & real[None, :], c, real


@triton.jit
def _keep(sums, first, second, channels, ROWS: tl.constexpr, CHANNELS: tl.constexpr):
    """Store two values per channel of this strip in `sums` (2, strips, channels)."""
    _, _, c, real = _tile(0, 1, channels, ROWS, CHANNELS)
    offsets = tl.program_id(0) * channels + c
    tl.store(sums + offsets, first, real)
    tl.store(sums + tl.num_programs(0) * channels + offsets, second, real)


@triton.jit
def _merge(mean, square, count, new_mean, new_square, new):
    """Merge groups of values (ROWS, CHANNELS) with `new` more each (ROWS,); return mean, squares and count."""
    share = new / tl.maximum(count + new, 1.0)
    delta = new_mean - mean
    square += new_square + delta * delta * (count * share)[:, None]
    return mean + delta * share[:, None], square, count + new


@triton.jit
def _merge_rows(mean, square, count):
    """Merge the groups of all rows per channel; return the mean, and the sum of squares around it."""
    middle = tl.sum(mean * count[:, None], 0) / tl.sum(count, 0)
    deviation = mean - middle[None, :]
    return middle, tl.sum(square + deviation * deviation * count[:, None], 0)


@triton.jit
def _moments(x, moments, rows, channels, strip, ROWS: tl.constexpr, CHANNELS: tl.constexpr):
    """Compute the mean of each strip of rows, and the sum of squares around it."""
    first = tl.program_id(0) * strip
    mean, square = tl.zeros((ROWS, CHANNELS), tl.float32), tl.zeros((ROWS, CHANNELS), tl.float32)
    count = tl.zeros((ROWS,), tl.float32)
    for row in range(first, tl.minimum(first + strip, rows), ROWS):
        offsets, inside, _, _ = _tile(row, rows, channels, ROWS, CHANNELS)
        new = (row + tl.arange(0, ROWS) < rows).to(tl.float32)
        values = tl.load(x + offsets, inside, 0.0).to(tl.float32)
        mean, square, count = _merge(mean, square, count, values, 0.0, new)
    strip_mean, strip_square = _merge_rows(mean, square, count)
    _keep(moments, strip_mean, strip_square, channels, ROWS, CHANNELS)


@triton.jit
def _finish(
    moments, mean_out, scale_out, running_mean, running_variance,
    rows, channels, strip, strips, momentum, epsilon, ROWS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """Merge the strips' moments: mean, 1/√(σ² + ε) with the biased σ², running ones with the unbiased σ²."""
    means, squares = tl.zeros((ROWS, CHANNELS), tl.float32), tl.zeros((ROWS, CHANNELS), tl.float32)
    count = tl.zeros((ROWS,), tl.float32)
    for i in range(0, strips, ROWS):
        offsets, inside, _, _ = _tile(i, strips, channels, ROWS, CHANNELS)
        new = tl.minimum(rows - (i + tl.arange(0, ROWS)) * strip, strip)
        new_mean = tl.load(moments + offsets, inside, 0.0)
        new_square = tl.load(moments + strips * channels + offsets, inside, 0.0)
        new = tl.maximum(new, 0).to(tl.float32)
        means, squares, count = _merge(means, squares, count, new_mean, new_square, new)
    mean, square = _merge_rows(means, squares, count)
    _, _, c, real = _tile(0, strips, channels, ROWS, CHANNELS)
    tl.store(mean_out + c, mean, real)
    tl.store(scale_out + c, 1.0 / tl.sqrt(square / rows + epsilon), real)
    decay = 1.0 - momentum
    tl.store(running_mean + c, decay * tl.load(running_mean + c, real) + momentum * mean, real)
    unbiased = square / (rows - 1)
    tl.store(running_variance + c, decay * tl.load(running_variance + c, real) + momentum * unbiased, real)


@triton.jit
def _normalize(x, offsets, inside, c, real, mean, scale, gamma, beta):
    """Return x̂ and γ x̂ + β of a tile."""
    values = tl.load(x + offsets, inside, 0.0).to(tl.float32)
    values = (values - tl.load(mean + c, real, 0.0)[None, :]) * tl.load(scale + c, real, 0.0)[None, :]
    return values, values * tl.load(gamma + c, real, 0.0)[None, :] + tl.load(beta + c, real, 0.0)[None, :]


@triton.jit
def _output(
    x, residual, y, mean, scale, gamma, beta, rows, channels,
    RELU: tl.constexpr, RESIDUAL: tl.constexpr, ROWS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    offsets, inside, c, real = _tile(tl.program_id(0) * ROWS, rows, channels, ROWS, CHANNELS)
    _, values = _normalize(x, offsets, inside, c, real, mean, scale, gamma, beta)
    if RESIDUAL:
        values += tl.load(residual + offsets, inside, 0.0).to(tl.float32)
    if RELU:
        values = tl.where(values <= 0.0, 0.0, values)  # a NaN stays one, as in torch's
    tl.store(y + offsets, values.to(y.dtype.element_ty), inside)


@triton.jit
def _sums(
    dy, second, x, y, masked, parts, mean, scale, gamma, beta, rows, channels, strip,
    RELU: tl.constexpr, RESIDUAL: tl.constexpr, SECOND: tl.constexpr, ROWS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """Sum dy x̂ and dy of each strip where ReLU is open; keep that dy if there is a residual.

    dy is the sum of two gradients if there is a `second` one.
    """
    first = tl.program_id(0) * strip
    d_gamma, d_beta = tl.zeros((ROWS, CHANNELS), tl.float32), tl.zeros((ROWS, CHANNELS), tl.float32)
    for row in range(first, tl.minimum(first + strip, rows), ROWS):
        offsets, inside, c, real = _tile(row, rows, channels, ROWS, CHANNELS)
        gradient = tl.load(dy + offsets, inside, 0.0).to(tl.float32)
        if SECOND:
            gradient += tl.load(second + offsets, inside, 0.0).to(tl.float32)
        normalized, before_relu = _normalize(x, offsets, inside, c, real, mean, scale, gamma, beta)
        if RESIDUAL:
            gradient = tl.where(tl.load(y + offsets, inside, 0.0).to(tl.float32) <= 0.0, 0.0, gradient)
            tl.store(masked + offsets, gradient.to(masked.dtype.element_ty), inside)
        elif RELU:
            gradient = tl.where(before_relu <= 0.0, 0.0, gradient)
        d_gamma += gradient * normalized
        d_beta += gradient
    _keep(parts, tl.sum(d_gamma, 0), tl.sum(d_beta, 0), channels, ROWS, CHANNELS)


@triton.jit
def _input_gradient(
    dy, x, dx, d_gamma, d_beta, mean, scale, gamma, beta, rows, channels,
    RELU: tl.constexpr, ROWS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """Compute dx = γ / √(σ² + ε) · (dy - mean of dy - x̂ · mean of dy x̂): Ioffe and Szegedy 2015, section 3."""
    offsets, inside, c, real = _tile(tl.program_id(0) * ROWS, rows, channels, ROWS, CHANNELS)
    gradient = tl.load(dy + offsets, inside, 0.0).to(tl.float32)
    normalized, before_relu = _normalize(x, offsets, inside, c, real, mean, scale, gamma, beta)
    if RELU:
        gradient = tl.where(before_relu <= 0.0, 0.0, gradient)
    factor = tl.load(gamma + c, real, 0.0) * tl.load(scale + c, real, 0.0)
    projection = tl.load(d_gamma + c, real, 0.0) / rows
    mean_gradient = tl.load(d_beta + c, real, 0.0) / rows
    values = factor[None, :] * (gradient - mean_gradient[None, :] - normalized * projection[None, :])
    tl.store(dx + offsets, values.to(dx.dtype.element_ty), inside)


def _tile_for(channels):
    """Return the tile of the other kernels, the fastest of those timed on an H200 for most numbers of channels."""
    return {"ROWS": 32, "CHANNELS": 128} if channels >= 128 else {"ROWS": 64, "CHANNELS": 64}


def _split(rows, channels, tile):
    """Return the number of rows in a strip, a multiple of the tile's; of strips; and of tiles side by side."""
    columns = triton.cdiv(channels, tile["CHANNELS"])
    return *split(rows, tile["ROWS"], STRIPS // columns), columns


class _Fused(torch.autograd.Function):
    """x, residual or None, γ, β, running mean and variance (changed), momentum, ε, whether with ReLU → y, and y again.

    Both outputs are in the same memory.
    """

    @staticmethod
    def forward(ctx, x, residual, gamma, beta, running_mean, running_variance, momentum, epsilon, relu):
        ctx.set_materialize_grads(False)
        ctx.shape, ctx.relu, x = x.shape, relu, to_matrix(x)
        (rows, channels), with_residual = x.shape, residual is not None
        if rows == 1:
            raise ValueError("batch norm in training needs more than one value per channel")
        strip, strips, columns = _split(rows, channels, MOMENTS_TILE)
        moments = torch.empty(2, strips, channels, device=x.device)
        mean, scale = torch.empty(2, channels, device=x.device).unbind()
        _moments[strips, columns](x, moments, rows, channels, strip, **MOMENTS_TILE)
        _finish[1, triton.cdiv(channels, STRIPS_TILE["CHANNELS"])](
            moments, mean, scale, running_mean, running_variance,
            rows, channels, strip, strips, momentum, epsilon, **STRIPS_TILE,
        )  # fmt: skip
        y, tile = torch.empty_like(x), _tile_for(channels)
        _output[triton.cdiv(rows, tile["ROWS"]), triton.cdiv(channels, tile["CHANNELS"])](
            x, to_matrix(residual) if with_residual else x, y, mean, scale, gamma, beta, rows, channels,
            RELU=relu, RESIDUAL=with_residual, **tile,
        )  # fmt: skip
        ctx.save_for_backward(x, y if with_residual else None, mean, scale, gamma, beta)
        return output_twice(to_images(y, ctx.shape))

    @staticmethod
    def backward(ctx, *gradients):
        x, y, mean, scale, gamma, beta = ctx.saved_tensors
        (rows, channels), with_residual = x.shape, y is not None
        dy, second = sort_gradients(gradients)
        dy, second = to_matrix(dy), None if second is None else to_matrix(second)
        tile = _tile_for(channels)
        strip, strips, columns = _split(rows, channels, tile)
        masked = torch.empty_like(dy) if with_residual else dy
        parts = torch.empty(2, strips, channels, device=x.device)
        _sums[strips, columns](
            dy, dy if second is None else second, x, y if with_residual else x, masked,
            parts, mean, scale, gamma, beta, rows, channels, strip,
            RELU=ctx.relu, RESIDUAL=with_residual, SECOND=second is not None, **tile,
        )  # fmt: skip
        d_gamma, d_beta = add_strips(parts)
        dx = torch.empty_like(x)
        _input_gradient[triton.cdiv(rows, tile["ROWS"]), columns](
            masked, x, dx, d_gamma, d_beta, mean, scale, gamma, beta, rows, channels,
            RELU=ctx.relu and not with_residual, **tile,
        )  # fmt: skip
        d_residual = to_images(masked, ctx.shape) if with_residual else None
        return to_images(dx, ctx.shape), d_residual, d_gamma, d_beta, None, None, None, None, None


class FusedBatchNorm(BatchNorm):
    """Batch norm in training, with the statistics of this replica's micro-batch, computed by this module's kernels.

    The running statistics are updated in place. Images that are not in `channels_last` are copied to it.
    """

    def forward(self, x):
        """Return the batch norm of x, in x's shape, (B, C, H, W), and type.

        Raises:
            ValueError: There is only one value per channel: B · H · W is 1.
        """
        return self._apply_fused(x, None, relu=False)[0]

    def activate(self, x):
        """Return ReLU(batch_norm(x)), in x's shape, (B, C, H, W), and type.

        Raises:
            ValueError: There is only one value per channel: B · H · W is 1.
        """
        return self._apply_fused(x, None, relu=True)[0]

    def activate_sum(self, x, shortcut):
        """Return ReLU(batch_norm(x) + shortcut) as a pair of tensors, one for each branch of the next block.

        `x` and `shortcut` are (B, C, H, W); the pair's tensors have their shape, and x's type. Both are in the same
        memory, so nothing may change them in place.

        Raises:
            ValueError: There is only one value per channel: B · H · W is 1.
        """
        return self._apply_fused(x, shortcut, relu=True)

    def _apply_fused(self, x, residual, relu):
        statistics = self.running_mean, self.running_var, self.momentum, self.eps
        return _Fused.apply(x, residual, self.weight, self.bias, *statistics, relu)
