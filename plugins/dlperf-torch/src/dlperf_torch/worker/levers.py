"""The optimizations that have names: options of the plugin that change how a model is computed, never what.

None of them has been measured on a GPU yet; the defaults leave the arithmetic as the models' files write it.
"""

import importlib.util

import torch
import torch.nn.functional as F
from torch import nn

from dlperf_sdk.worker.interface import Unsupported

ATTENTION = {
    "flash": torch.backends.cuda.enable_flash_sdp,
    "efficient": torch.backends.cuda.enable_mem_efficient_sdp,
    "cudnn": torch.backends.cuda.enable_cudnn_sdp,
    "math": torch.backends.cuda.enable_math_sdp,
}
"""Implementation of scaled dot product attention → what allows it."""


def check(request):
    """Check that this environment has the libraries that the request's options need.

    The plan has already refused options that have no effect.

    Raises:
        Unsupported: a library is missing.
    """
    if request.framework_options["fused_batch_norm"] and importlib.util.find_spec("triton") is None:
        raise Unsupported(
            "fused_batch_norm needs triton, which torch's builds for CUDA bring and this environment lacks; "
            "install it there, or leave the option at false"
        )


def compile_function(function, request):
    """Return a network or a function as the request's compiler makes it."""
    if request.compiler != "inductor":
        return function
    # The mode that also captures graphs would give out losses that the next step overwrites.
    mode = "max-autotune-no-cudagraphs" if request.framework_options["max_autotune"] else None
    return torch.compile(function, dynamic=False, mode=mode)


class BatchNorm(nn.BatchNorm2d):
    """Batch norm and what follows it in a network, in torch's own kernels."""

    def activate(self, x, shortcut=None):
        """Return the rectified batch norm of x, (B, C, H, W), with the shortcut, if any, added before the ReLU."""
        x = self(x)
        if shortcut is not None:
            x = x.add_(shortcut)
        return F.relu(x, inplace=True)


class BatchNormFp32(BatchNorm):
    """Batch norm in float32 whatever the convolutions give out, and its output in their type again."""

    def forward(self, x):
        """Normalize (B, C, H, W) → (B, C, H, W)."""
        return super().forward(x.float()).to(x.dtype)


def apply_packed(x, layers):
    """Apply linear layers to one input x as one matrix product; return the tuple of their outputs."""
    weight = torch.cat([layer.weight for layer in layers])
    bias = torch.cat([layer.bias for layer in layers])
    return F.linear(x, weight, bias).split([len(layer.weight) for layer in layers], dim=-1)


def apply_padded_linear(x, weight, bias, multiple):
    """Return `F.linear` with the outputs padded to a multiple by rows of zeros, which are removed again.

    Nothing sees the extra outputs, so no loss and no gradient knows of them; but the matrix product has the
    size that the hardware likes.
    """
    outputs = len(weight)
    extra = -outputs % multiple
    if not extra:
        return F.linear(x, weight, bias)
    return F.linear(x, F.pad(weight, (0, 0, 0, extra)), F.pad(bias, (0, extra)))[..., :outputs]


def is_rounded(dropout):
    """Return True if cuDNN's attention would round this dropout probability.

    Some of its kernels support multiples of 1/16 only (pytorch/pytorch, pull request 174245); from 2.12 on torch gives
    them nothing else.
    """
    return 16 * dropout != int(16 * dropout)


def allow_attention(name, dropout=0.0):
    """Let scaled dot product attention use only this implementation.

    "auto" is torch's own choice among those that do not round the dropout rate.
    """
    for backend, allow in ATTENTION.items():
        allow(backend == name or (name == "auto" and not (backend == "cudnn" and is_rounded(dropout))))


def probe_attention(name, device, dtype, heads, tokens, size, dropout):
    """Check that an attention implementation runs with a mask and dropout, forward and backward.

    The implementation "auto", torch's own choice, is not checked.

    Args:
        name: The implementation.
        device: Where the query is.
        dtype: Its data type.
        heads: Number of heads.
        tokens: Sequence length.
        size: Features per head.
        dropout: Probability of dropout.

    Raises:
        Unsupported: the implementation does not support this device, type or size.
    """
    if name == "cudnn" and is_rounded(dropout):
        raise Unsupported(
            "attention cudnn may round dropout %g to sixteenths; choose another dropout, such as 0.125, or leave "
            "attention at auto" % dropout
        )
    allow_attention(name, dropout)
    if name == "auto":
        return
    query = torch.zeros(1, heads, tokens, size, device=device, dtype=dtype, requires_grad=True)
    mask = torch.zeros(1, 1, 1, tokens, device=device, dtype=dtype)
    try:
        output = F.scaled_dot_product_attention(query, query, query, attn_mask=mask, dropout_p=dropout)
        output.sum().backward()
    except RuntimeError as error:
        allow_attention("auto", dropout)
        raise Unsupported(
            "attention %s cannot attend with a mask and dropout %g in %s over %d tokens on %s: %s; "
            "leave attention at auto"
            % (name, dropout, str(dtype).replace("torch.", ""), tokens, device, str(error).partition("\n")[0])
        ) from error
