"""ResNet-50's max-pool, 3×3 with stride 2 and padding 1: Triton kernels, one forward and one backward.

What they compute is tested in Triton's interpreter. Images lie in channels_last. Each value is read from memory once
and written once; a neighbouring window finds it in the cache. The forward pass keeps, in one byte, the place of each
window's maximum (its tap: 0 to 8, row by row), and nothing else. The backward pass gathers: the four pixels of a 2×2
square lie in no windows but the one at the same place in the output, the next one, and the two below these. So there
are no atomics, and the order of every sum is fixed.
"""

import torch
import triton
import triton.language as tl

from dlperf_torch.worker.branches import output_twice, sort_gradients
from dlperf_torch.worker.pixels import to_images, to_matrix

TILE = {"ROWS": 32, "CHANNELS": 64, "num_warps": 8}
"""Windows and channels of a program. A thread has eight channels, 16 bytes in half precision, of one window."""


@triton.jit
def _windows(windows, height, width, channels, ROWS: tl.constexpr, CHANNELS: tl.constexpr):
    """Return this program's windows, which of them exist, their image, row and column; channels with their mask.

    `height` and `width` are the output's. A window's centre has twice its row and column.
    """
    window = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    row, column = window // width % height, window % width
    return (
        window,
        window < windows,
        window // width // height,
        row,
        column,
        c[None, :],
        (c < channels)[None, :],
    )


@triton.jit
def _offsets(pixel, c, channels):
    """Return the offsets of these pixels' channels."""
    return pixel.to(tl.int64)[:, None] * channels + c


@triton.jit
def _maximum(x, y, taps, windows, height, width, channels, ROWS: tl.constexpr, CHANNELS: tl.constexpr):
    """Compute each window's maximum and its tap. As in torch, the first of equal values counts, and the last NaN."""
    window, exists, image, row, column, c, real = _windows(
        windows, (height + 1) // 2, (width + 1) // 2, channels, ROWS, CHANNELS
    )
    centre = _offsets((image * height + 2 * row) * width + 2 * column, c, channels)
    best = tl.full((ROWS, CHANNELS), float("-inf"), tl.float32)
    # The first tap inside the image, which counts if all values are -∞.
    best_tap = tl.zeros((ROWS, CHANNELS), tl.int32) + tl.where(row == 0, 3, 0)[:, None]
    best_tap += tl.where(column == 0, 1, 0)[:, None]
    for tap in tl.static_range(9):
        down, right = tap // 3 - 1, tap % 3 - 1
        inside = exists & (2 * row + down >= 0) & (2 * row + down < height)
        inside = inside & (2 * column + right >= 0) & (2 * column + right < width)
        offsets = centre + (down * width + right) * channels
        values = tl.load(x + offsets, inside[:, None] & real, float("-inf")).to(tl.float32)
        larger = (values > best) | (values != values)
        best = tl.where(larger, values, best)
        best_tap = tl.where(larger, tap, best_tap)
    offsets, inside = _offsets(window, c, channels), exists[:, None] & real
    tl.store(y + offsets, best.to(y.dtype.element_ty), inside)
    tl.store(taps + offsets, best_tap.to(tl.int8), inside)


@triton.jit
def _read(dy, second, taps, offsets, inside, SECOND: tl.constexpr):
    """Return the gradients of windows, each the sum of two if there is a `second` one, and the windows' taps."""
    gradient = tl.load(dy + offsets, inside, 0.0).to(tl.float32)
    if SECOND:
        gradient += tl.load(second + offsets, inside, 0.0).to(tl.float32)
    return gradient, tl.load(taps + offsets, inside, -1).to(tl.int32)


@triton.jit
def _gather(
    dy, second, taps, dx, windows, height, width, channels,
    SECOND: tl.constexpr, ROWS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """Compute dx of the 2×2 squares whose upper left pixels are the centres of this program's windows."""
    rows, columns = (height + 1) // 2, (width + 1) // 2
    window, exists, image, row, column, c, real = _windows(windows, rows, columns, channels, ROWS, CHANNELS)
    offsets, inside = _offsets(window, c, channels), exists[:, None] & real
    is_right, is_below = (column + 1 < columns)[:, None], (row + 1 < rows)[:, None]
    below = offsets + columns * channels
    middle, middle_tap = _read(dy, second, taps, offsets, inside, SECOND)
    right, right_tap = _read(dy, second, taps, offsets + channels, inside & is_right, SECOND)
    under, under_tap = _read(dy, second, taps, below, inside & is_below, SECOND)
    corner, corner_tap = _read(dy, second, taps, below + channels, inside & is_right & is_below, SECOND)

    upper_left = tl.where(middle_tap == 4, middle, 0.0)
    upper_right = tl.where(middle_tap == 5, middle, 0.0) + tl.where(right_tap == 3, right, 0.0)
    lower_left = tl.where(middle_tap == 7, middle, 0.0) + tl.where(under_tap == 1, under, 0.0)
    lower_right = tl.where(middle_tap == 8, middle, 0.0) + tl.where(right_tap == 6, right, 0.0)
    lower_right += tl.where(under_tap == 2, under, 0.0)
    lower_right += tl.where(corner_tap == 0, corner, 0.0)

    pixel = dx + _offsets((image * height + 2 * row) * width + 2 * column, c, channels)
    is_right, is_below = (2 * column + 1 < width)[:, None], (2 * row + 1 < height)[:, None]
    kind = dx.dtype.element_ty
    tl.store(pixel, upper_left.to(kind), inside)
    tl.store(pixel + channels, upper_right.to(kind), inside & is_right)
    tl.store(pixel + width * channels, lower_left.to(kind), inside & is_below)
    tl.store(pixel + (width + 1) * channels, lower_right.to(kind), inside & is_right & is_below)


def _grid(windows, channels):
    return triton.cdiv(windows, TILE["ROWS"]), triton.cdiv(channels, TILE["CHANNELS"])


class _MaxPool(torch.autograd.Function):
    """x → y, and y again in the same memory."""

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        ctx.shape = batch, channels, height, width = x.shape
        shape = batch, channels, (height + 1) // 2, (width + 1) // 2
        windows, x = batch * shape[2] * shape[3], to_matrix(x)
        y = x.new_empty(windows, channels)
        taps = torch.empty_like(y, dtype=torch.int8)
        _maximum[_grid(windows, channels)](x, y, taps, windows, height, width, channels, **TILE)
        ctx.save_for_backward(taps)
        return output_twice(to_images(y, shape))

    @staticmethod
    def backward(ctx, *gradients):
        (taps,) = ctx.saved_tensors
        (windows, channels), (batch, _, height, width) = taps.shape, ctx.shape
        dy, second = sort_gradients(gradients)
        dy, second = to_matrix(dy), None if second is None else to_matrix(second)
        dx = dy.new_empty(batch * height * width, channels)
        _gather[_grid(windows, channels)](
            dy, dy if second is None else second, taps, dx, windows, height, width, channels,
            SECOND=second is not None, **TILE,
        )  # fmt: skip
        return to_images(dx, ctx.shape)


def max_pool(x):
    """Return the 3×3 max-pool with stride 2 and padding 1 of x, (B, C, H, W), as a pair of tensors in x's type.

    Both are (B, C, ⌈H / 2⌉, ⌈W / 2⌉) in the same memory, one for each of the branches of the next block. Images that
    are not in `channels_last` are copied to it.
    """
    return _MaxPool.apply(x)
