"""Sums over the rows of a matrix in two kernels without atomics: each program sums a strip, then these are added."""

import triton
import triton.language as tl

TILE = {"ROWS": 256, "CHANNELS": 16}
"""Tile of strips, for kernels that merge them. It has few channels, so that there are many programs."""


def split(rows, tile, limit):
    """Return a pair that splits a matrix's rows into strips: the rows per strip, and the number of strips.

    Args:
        rows: Number of rows of the matrix.
        tile: Rows that a kernel reads at once; the rows per strip are a multiple of it.
        limit: Maximum number of strips; less than 1 counts as 1.
    """
    strip = triton.cdiv(triton.cdiv(rows, tile), max(1, limit)) * tile
    return strip, triton.cdiv(rows, strip)


@triton.jit
def _add(parts, sums, channels, strips, ROWS: tl.constexpr, CHANNELS: tl.constexpr):
    c = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    parts += tl.program_id(0) * strips * channels
    total = tl.zeros((ROWS, CHANNELS), tl.float32)
    for first in range(0, strips, ROWS):
        r = first + tl.arange(0, ROWS)
        inside = (r < strips)[:, None] & (c < channels)[None, :]
        total += tl.load(parts + r[:, None] * channels + c[None, :], inside, 0.0)
    tl.store(sums + tl.program_id(0) * channels + c, tl.sum(total, 0), c < channels)


def add_strips(parts):
    """Return the sums of `parts` over its strips as a tuple of N tensors (channels,).

    `parts` is a float32 tensor (N, strips, channels) on a GPU.
    """
    kinds, strips, channels = parts.shape
    sums = parts.new_empty(kinds, channels)
    _add[kinds, triton.cdiv(channels, TILE["CHANNELS"])](parts, sums, channels, strips, **TILE)
    return sums.unbind()
