"""Options of the plugin that change how a model is computed, not what."""

import importlib.util

import torch
import torch.nn.functional as F
from torch import nn

from dlperf_sdk.worker.unsupported import Unsupported, look_up
from dlperf_torch.precisions import PRECISIONS

ATTENTION = {
    "flash": torch.backends.cuda.enable_flash_sdp,
    "efficient": torch.backends.cuda.enable_mem_efficient_sdp,
    "cudnn": torch.backends.cuda.enable_cudnn_sdp,
    "math": torch.backends.cuda.enable_math_sdp,
}
"""Implementation of scaled dot product attention → the function that allows or forbids it."""

FUSED_TOKENS = 128
"""Maximum sequence length of `fused_layers`."""
FUSED_FEATURES = (16, 32, 64, 128)
"""Features per head of `fused_layers`: powers of two."""
NEEDS_TRITON = ("fused_batch_norm", "fused_layers")
"""Options whose kernels are written in Triton."""


def settle(request):
    """Return a copy of the request in which no plugin option is None.

    If `cuda_graph`, `fused_batch_norm` or `fused_layers` is None, it becomes True where it can be used and was fastest
    on an H200, else False. If `vocabulary_multiple` is None, it becomes 64 on GPUs, else 1.

    Args:
        request: The request; it is not changed.

    Raises:
        Unsupported: The option `fused_batch_norm` or `fused_layers` is true, and Triton is missing; or the plugin does
            not have the request's precision.
    """
    options = dict(request.framework_options)
    has_triton = importlib.util.find_spec("triton") is not None
    for name in NEEDS_TRITON:
        if options[name] and not has_triton:
            raise Unsupported(
                "%s needs triton, which torch's builds for CUDA bring and this environment lacks; install it there, "
                "or set the option to false" % name
            )
    one_gpu = request.device == "cuda" and request.nodes * request.devices_per_node == 1
    _choose(options, "cuda_graph", one_gpu and options["fused_optimizer"])
    # Without a graph these kernels take longer to launch than to run.
    fuses = options["cuda_graph"] and has_triton and request.compiler == "none"
    plain = options["batch_norm_fp32"] or request.layout == "nchw"
    _choose(options, "fused_batch_norm", fuses and request.model == "resnet50" and not plain)
    plain = options["attention"] != "auto" or options["packed_qkv"]
    narrow = look_up("precision", request.precision, PRECISIONS).products != "float32"
    fits = request.model == "bert-base" and explain_misfit(request.model_options) is None
    _choose(options, "fused_layers", fuses and fits and narrow and not plain)
    _choose(options, "vocabulary_multiple", 64 if request.device == "cuda" else 1)
    return request._replace(framework_options=options)


def explain_misfit(options):
    """Return a sentence that says why a BERT of this size cannot use `fused_layers`; None if it can.

    `options` is a dict of the model's options, of which `sequence_length`, `hidden_size` and `heads` are read.
    """
    tokens, features = options["sequence_length"], options["hidden_size"] // options["heads"]
    if tokens > FUSED_TOKENS:
        return "fused_layers is for sequences of at most %d tokens, and these have %d; leave it at false" % (
            FUSED_TOKENS,
            tokens,
        )
    if features not in FUSED_FEATURES:
        return (
            "fused_layers is for heads of 16, 32, 64 or 128 features, and these have %d; leave it at false"
            % features
        )
    return None


def _choose(options, name, value):
    """Set an option to `value`, unless the user has set it."""
    if options[name] is None:
        options[name] = value


class BatchNorm(nn.BatchNorm2d):
    """torch's batch norm for images, with methods that also apply the operations that follow it in ResNet."""

    def activate(self, x):
        """Return ReLU(batch_norm(x)), in x's shape, (B, C, H, W), and type."""
        return F.relu(self(x), inplace=True)

    def activate_sum(self, x, shortcut):
        """Return ReLU(batch_norm(x) + shortcut) as a pair, one item for each branch of the next block.

        `x` and `shortcut` are (B, C, H, W). Both items are the same tensor, in the shape and the type of x.
        """
        x = F.relu(self(x).add_(shortcut), inplace=True)
        return x, x


class BatchNormFp32(BatchNorm):
    """Batch norm computed in float32, whatever the type of its input; the output has the type of the input."""

    def forward(self, x):
        """Return the batch norm of x, computed in float32, in x's shape, (B, C, H, W), and type."""
        return super().forward(x.float()).to(x.dtype)


def apply_packed(x, layers):
    """Return a tuple of the outputs of several linear layers for the same input x, computed by one matrix product.

    `layers` is a list of `nn.Linear` with bias. `x` is (…, inputs); the outputs are (…, outputs of the layer), in the
    order of `layers`.
    """
    weight = torch.cat([layer.weight for layer in layers])
    bias = torch.cat([layer.bias for layer in layers])
    return F.linear(x, weight, bias).split([len(layer.weight) for layer in layers], dim=-1)


def apply_padded_linear(x, weight, bias, multiple):
    """Return `F.linear(x, weight, bias)`, with the number of outputs padded to a multiple of `multiple` meanwhile.

    This gives the matrix product a size that suits the hardware. The extra outputs have zero weights and are cut off,
    so that results and gradients stay the same up to rounding. `x` is (…, inputs), `weight` (outputs, inputs), `bias`
    (outputs,), which is required, and the result (…, outputs).
    """
    outputs = len(weight)
    extra = -outputs % multiple
    if not extra:
        return F.linear(x, weight, bias)
    return F.linear(x, F.pad(weight, (0, 0, 0, extra)), F.pad(bias, (0, extra)))[..., :outputs]


def _is_rounded(dropout):
    """Return True if cuDNN's attention may round this probability of dropout: it is not a multiple of 1/16.

    Some of cuDNN's kernels support only multiples of 1/16 (pytorch/pytorch, pull request 174245). Torch 2.12 and later
    pass them no other probability.
    """
    return 16 * dropout != int(16 * dropout)


def allow_attention(name, dropout=0.0):
    """Allow one implementation of torch's scaled dot product attention in this process, and forbid the others.

    Args:
        name: `flash`, `efficient`, `cudnn` or `math`; or `auto`, which allows all of them. It leaves out `cudnn`
            unless 16 · `dropout` is an integer, because cuDNN may round other values.
        dropout: Probability of dropout, from 0 to 1.
    """
    for backend, allow in ATTENTION.items():
        allow(backend == name or (name == "auto" and not (backend == "cudnn" and _is_rounded(dropout))))


def probe_attention(name, device, dtype, heads, tokens, size, dropout):
    """Allow only one implementation of attention in this process, and try it with a mask and dropout.

    The trial runs a forward and a backward pass. If it fails, the implementations of `auto` are allowed again.

    Args:
        name: `flash`, `efficient`, `cudnn` or `math`; or `auto`, for which `allow_attention` is called and nothing is
            tried.
        device: The `torch.device`.
        dtype: The `torch.dtype` of queries, keys and values.
        heads: Number of heads.
        tokens: Sequence length.
        size: Features per head.
        dropout: Probability of dropout, from 0 to 1.

    Raises:
        Unsupported: The implementation fails with this device, type or size; or it is `cudnn`, and 16 · `dropout` is
            not an integer.
    """
    if name == "cudnn" and _is_rounded(dropout):
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
