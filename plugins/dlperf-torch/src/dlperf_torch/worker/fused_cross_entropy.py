"""Cross entropy of logits in 16 bits, in one Triton kernel each way: no copy of the logits in float32."""

import torch
import triton
import triton.language as tl

COLUMNS = 4096
"""Logits in one pass of a program, which computes one row."""


@triton.jit
def _load(logits, first, columns, width, COLUMNS: tl.constexpr):
    """Load a part of a row in float32, and return it with its columns; columns past the row's end are -∞.

    Between the row's end and the next row, memory is read and ignored: a bound that 16 does not divide would make each
    access one of a single element.
    """
    c = first + tl.arange(0, COLUMNS)
    row = tl.program_id(0).to(tl.int64)
    values = tl.load(logits + row * width + c, c < width, float("-inf")).to(tl.float32)
    return tl.where(c < columns, values, float("-inf")), c


@triton.jit
def _forward(logits, labels, losses, logsums, columns, width, COLUMNS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    maximum, total = float("-inf"), 0.0
    for first in range(0, columns, COLUMNS):
        values, _ = _load(logits, first, columns, width, COLUMNS)
        new = tl.maximum(maximum, tl.max(values, 0))
        total = total * tl.exp(maximum - new) + tl.sum(tl.exp(values - new), 0)
        maximum = new
    logsum = maximum + tl.log(total)
    chosen = tl.load(logits + row * width + tl.load(labels + row)).to(tl.float32)
    tl.store(logsums + row, logsum)
    tl.store(losses + row, logsum - chosen)


@triton.jit
def _backward(logits, labels, logsums, d_losses, d_logits, columns, width, COLUMNS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    values, c = _load(logits, tl.program_id(1) * COLUMNS, columns, width, COLUMNS)
    values = tl.exp(values - tl.load(logsums + row)) - tl.where(c == tl.load(labels + row), 1.0, 0.0)
    values *= tl.load(d_losses + row)
    tl.store(d_logits + row * width + c, values.to(d_logits.dtype.element_ty), c < width)


class _CrossEntropy(torch.autograd.Function):
    """logits, labels → losses."""

    @staticmethod
    def forward(ctx, logits, labels):
        rows, columns = logits.shape
        if (
            logits.storage_offset()
            or logits.untyped_storage().nbytes() < logits.element_size() * rows * logits.stride(0)
        ):
            logits = logits.contiguous()
        losses, logsums = torch.empty(2, rows, device=logits.device).unbind()
        ctx.fixed = {"columns": columns, "width": logits.stride(0), "COLUMNS": COLUMNS}
        _forward[(rows,)](logits, labels, losses, logsums, **ctx.fixed)
        ctx.save_for_backward(logits, labels, logsums)
        return losses

    @staticmethod
    def backward(ctx, d_losses):
        logits, labels, logsums = ctx.saved_tensors
        (rows, columns), width = logits.shape, logits.stride(0)
        d_logits = logits.new_empty(rows, width)
        grid = rows, triton.cdiv(width, COLUMNS)
        _backward[grid](logits, labels, logsums, d_losses.contiguous(), d_logits, **ctx.fixed)
        return d_logits[:, :columns], None


def cross_entropy(logits, labels):
    """Return -log softmax(logits)[label] of each row, computed in float32: a tensor (R,).

    `logits`, (R, V), is a tensor on a GPU whose rows are contiguous. `labels`, (R,), has the index of each row's label,
    from 0 to V - 1.
    """
    return _CrossEntropy.apply(logits, labels)
