"""Self-attention of short sequences with dropout in one Triton kernel each way: scores never reach memory.

Letters in shapes: B sequences, S tokens (at most 128), N heads, D features per head. One program computes one head of
one sequence. The gradients of the biases of query, key and value are summed here, which saves another pass over these
tensors. The backward pass recomputes the probabilities, as FlashAttention does (Dao et al. 2022).
"""

import torch
import triton
import triton.language as tl

from dlperf_torch.worker.dropout import keep, threshold
from dlperf_torch.worker.strips import add_strips

ROWS = 32
"""Queries in one pass of the backward kernel."""
WARPS = {"num_warps": 4, "num_stages": 1}
"""The fastest of seven combinations on an H200, with `ROWS`, for 128 tokens of 64 features."""
LOG2_E: tl.constexpr = tl.constexpr(1.4426950408889634)


@triton.jit
def _head(qkv, part, rows, tokens, heads, SIZE: tl.constexpr):
    """Load one head's queries (part 0), keys (1) or values (2) of these tokens; also return offsets and columns."""
    head = tl.program_id(0) % heads
    column = (part * heads + head) * SIZE + tl.arange(0, SIZE)
    row = (tl.program_id(0) // heads).to(tl.int64) * tokens + rows
    offsets = row[:, None] * (3 * heads * SIZE) + column[None, :]
    return tl.load(qkv + offsets, (rows < tokens)[:, None], 0.0), offsets, column


@triton.jit
def _elements(rows, columns, tokens):
    """Return the indices of these scores among all scores of all heads, for dropout."""
    return (tl.program_id(0) * tokens + rows) * tokens + columns


@triton.jit
def _forward(
    qkv, mask, seeds, context, logsum, tokens, heads, scale, dropped, grow,
    TOKENS: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """Compute one head's context, and the base-2 logarithm of each query's sum of exponentials."""
    rows = tl.arange(0, TOKENS)
    query, _, _ = _head(qkv, 0, rows, tokens, heads, SIZE)
    key, _, _ = _head(qkv, 1, rows, tokens, heads, SIZE)
    value, _, _ = _head(qkv, 2, rows, tokens, heads, SIZE)
    sequence, head = tl.program_id(0) // heads, tl.program_id(0) % heads
    real = tl.load(mask + sequence * tokens + rows, rows < tokens, 0) != 0
    scores = tl.dot(query, tl.trans(key), input_precision="ieee")
    scores = tl.where(real[None, :], scores, float("-inf"))
    maximum = tl.max(scores, 1) * scale
    scores = tl.exp2(scores * scale - maximum[:, None])
    total = tl.sum(scores, 1)
    is_kept = keep(seeds, _elements(rows[:, None], rows[None, :], tokens), dropped)
    values = tl.dot(tl.where(is_kept, scores, 0.0).to(value.dtype), value, input_precision="ieee")
    values *= (grow / total)[:, None]
    row = sequence.to(tl.int64) * tokens + rows
    offsets = row[:, None] * (heads * SIZE) + (head * SIZE + tl.arange(0, SIZE))[None, :]
    tl.store(context + offsets, values.to(context.dtype.element_ty), (rows < tokens)[:, None])
    tl.store(logsum + tl.program_id(0) * tokens + rows, maximum + tl.log2(total), rows < tokens)


@triton.jit
def _backward(
    qkv, mask, seeds, context, d_context, logsum, d_qkv, d_bias, tokens, heads, scale, dropped, grow,
    TOKENS: tl.constexpr, SIZE: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of one head from its keys' side: rows of the scores here are keys, columns are queries."""
    columns, features = tl.arange(0, TOKENS), tl.arange(0, SIZE)
    key, key_offsets, key_column = _head(qkv, 1, columns, tokens, heads, SIZE)
    value, value_offsets, value_column = _head(qkv, 2, columns, tokens, heads, SIZE)
    sequence, head = tl.program_id(0) // heads, tl.program_id(0) % heads
    inside = columns < tokens
    real = tl.load(mask + sequence * tokens + columns, inside, 0) != 0
    d_key, d_value = tl.zeros((TOKENS, SIZE), tl.float32), tl.zeros((TOKENS, SIZE), tl.float32)
    d_queries = tl.zeros((ROWS, SIZE), tl.float32)
    for first in range(0, tokens, ROWS):
        rows = first + tl.arange(0, ROWS)
        query, query_offsets, _ = _head(qkv, 0, rows, tokens, heads, SIZE)
        row = sequence.to(tl.int64) * tokens + rows
        offsets = row[:, None] * (heads * SIZE) + (head * SIZE + features)[None, :]
        gradient = tl.load(d_context + offsets, (rows < tokens)[:, None], 0.0)
        mean = tl.load(context + offsets, (rows < tokens)[:, None], 0.0).to(tl.float32) * gradient.to(
            tl.float32
        )
        lse = tl.load(logsum + tl.program_id(0) * tokens + rows, rows < tokens, float("inf"))
        chosen = tl.dot(key, tl.trans(query), input_precision="ieee") * scale
        chosen = tl.where(real[:, None], tl.exp2(chosen - lse[None, :]), 0.0)
        is_kept = keep(seeds, _elements(rows[None, :], columns[:, None], tokens), dropped)
        used = tl.where(is_kept, chosen * grow, 0.0)
        d_value += tl.dot(used.to(gradient.dtype), gradient, input_precision="ieee")
        d_scores = tl.dot(value, tl.trans(gradient), input_precision="ieee")
        d_scores = (used * d_scores - chosen * tl.sum(mean, 1)[None, :]).to(query.dtype)
        d_key += tl.dot(d_scores, query, input_precision="ieee")
        d_query = tl.dot(tl.trans(d_scores), key, input_precision="ieee") * (scale / LOG2_E)
        tl.store(d_qkv + query_offsets, d_query.to(d_qkv.dtype.element_ty), (rows < tokens)[:, None])
        d_queries += d_query
    d_key *= scale / LOG2_E
    tl.store(d_qkv + key_offsets, d_key.to(d_qkv.dtype.element_ty), inside[:, None])
    tl.store(d_qkv + value_offsets, d_value.to(d_qkv.dtype.element_ty), inside[:, None])
    partial = d_bias + sequence.to(tl.int64) * (3 * heads * SIZE)
    tl.store(partial + head * SIZE + features, tl.sum(d_queries, 0))
    tl.store(partial + key_column, tl.sum(d_key, 0))
    tl.store(partial + value_column, tl.sum(d_value, 0))


class _Attention(torch.autograd.Function):
    """qkv, the bias in it, mask, heads, p, seeds → context."""

    @staticmethod
    def forward(ctx, qkv, bias, mask, heads, p, seeds):
        (sequences, tokens), size = mask.shape, qkv.shape[-1] // (3 * heads)
        qkv = qkv.contiguous()
        context = qkv.new_empty(sequences, tokens, heads * size)
        logsum = torch.empty(sequences, heads, tokens, device=qkv.device)
        ctx.fixed = {"TOKENS": max(16, triton.next_power_of_2(tokens)), "SIZE": size, **WARPS}
        ctx.numbers = tokens, heads, LOG2_E.value * size**-0.5, threshold(p), 1 / (1 - p)
        _forward[(sequences * heads,)](qkv, mask, seeds, context, logsum, *ctx.numbers, **ctx.fixed)
        ctx.save_for_backward(qkv, bias, mask, seeds, context, logsum)
        return context

    @staticmethod
    def backward(ctx, d_context):
        qkv, bias, mask, seeds, context, logsum = ctx.saved_tensors
        d_qkv, (sequences, heads, _) = torch.empty_like(qkv), logsum.shape
        d_bias = torch.empty(1, sequences, len(bias), device=qkv.device)
        _backward[(sequences * heads,)](
            qkv, mask, seeds, context, d_context.contiguous(), logsum, d_qkv, d_bias, *ctx.numbers,
            ROWS=min(ROWS, ctx.fixed["TOKENS"]), **ctx.fixed,
        )  # fmt: skip
        (d_bias,) = add_strips(d_bias)
        return d_qkv, d_bias.to(bias.dtype), None, None, None, None


def attend(qkv, bias, mask, heads, p, seeds):
    """Return the attention's context, (B, S, N · D), in qkv's type, for B sequences, S tokens, N heads of D features.

    Args:
        qkv: Queries, keys and values with their bias, (B, S, 3 · N · D), on a GPU.
        bias: The bias that was added to `qkv`, (3 · N · D,). Its values are not read: it is passed to receive its
            gradient here. So the tensor that was added must have been detached.
        mask: 1 for tokens that get attention, 0 for padding, (B, S). Each sequence has at least one 1.
        heads: Number of heads, N. D is a power of two, at least 16.
        p: Probability of dropout of the attention's probabilities, 0 ≤ p < 1.
        seeds: Two int32 seeds of this dropout, from `dropout.draw_seeds`.
    """
    return _Attention.apply(qkv, bias, mask, heads, p, seeds)
