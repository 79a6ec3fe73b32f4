"""Evidence for the settings in effect: the types and layouts of layers, and plain float32 to compare with."""

import contextlib

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

ANY_ATTENTION = [
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.CUDNN_ATTENTION,
    SDPBackend.MATH,
]
"""All implementations of attention, so that torch finds one that takes float32."""


def layout_of(value):
    """Return the memory layout, `nhwc` or `nchw`, of `value`, a 4-D tensor of images or a convolution's weights."""
    return "nhwc" if value.is_contiguous(memory_format=torch.channels_last) else "nchw"


def layouts_of_weights(network):
    """Return the set of the layouts, `nhwc` or `nchw`, of the weights of a network's convolutions.

    `network` is an `nn.Module`. 1×1 kernels are left out, because both layouts are the same for them. The set is empty
    without other convolutions.
    """
    return {layout_of(w) for w in network.parameters() if w.dim() == 4 and w.shape[2] > 1}


def weight_types(network):
    """Return the set of the `torch.dtype` of the weights of a network's convolutions, linear layers and embeddings.

    `network` is an `nn.Module`.
    """
    kinds = (nn.Conv2d, nn.Linear, nn.Embedding)
    return {module.weight.dtype for module in network.modules() if isinstance(module, kinds)}


def allows_tf32(device):
    """Return True if torch's present settings allow float32 products on `device`, a `torch.device`, in TF32."""
    return device.type == "cuda" and torch.backends.cuda.matmul.allow_tf32 and torch.backends.cudnn.allow_tf32


@contextlib.contextmanager
def watch_products(network, note):
    """Return a context manager: in it, each output of the network's convolutions and linear layers is passed to `note`.

    `network` is an `nn.Module`. `note` is a function of one tensor. It must return None, because another value would
    replace the output.
    """
    layers = [module for module in network.modules() if isinstance(module, (nn.Conv2d, nn.Linear))]
    hooks = [layer.register_forward_hook(lambda module, args, output: note(output)) for layer in layers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@contextlib.contextmanager
def preserve_state(network):
    """Return a context manager: in it, `network` has no dropout; at its end, dropout and buffers are restored.

    `network` is an `nn.Module`, whose buffers are the running statistics of batch norm.
    """
    buffers = {name: buffer.clone() for name, buffer in network.named_buffers()}
    dropouts = [(module, module.p) for module in network.modules() if isinstance(module, nn.Dropout)]
    for module, _ in dropouts:
        module.p = 0.0
    try:
        yield
    finally:
        for module, p in dropouts:
            module.p = p
        for name, buffer in network.named_buffers():
            buffer.copy_(buffers[name])


@contextlib.contextmanager
def use_plain_fp32():
    """Return a context manager: in it, torch computes float32 products in the full width of float32, without TF32.

    In it, all implementations of attention are allowed, since some do not take float32, and cuDNN does not time
    algorithms, since the search would take longer than a single computation. The settings of TF32, attention and cuDNN
    are restored at its end.
    """
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark
    matmul.allow_tf32 = cudnn.allow_tf32 = cudnn.benchmark = False
    try:
        with sdpa_kernel(ANY_ATTENTION):
            yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark = before
