"""What was in effect: types and layouts as they were seen at work, and how far they are from plain fp32."""

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


class Seen:
    """The types and layouts of the values that were noted."""

    def __init__(self):
        self.dtypes, self.layouts = set(), set()

    def note(self, value):
        """A layer's output, or the network's."""
        self.dtypes.add(str(value.dtype).replace("torch.", ""))
        if value.dim() == 4 and value.shape[2:].numel() > 1:  # a single pixel lies the same in both
            self.layouts.add(layout_of(value))

    def precision(self, device):
        """The types under the names of precisions; several are joined, and then none of them was in effect."""
        names = {"float16": "amp-fp16", "bfloat16": "amp-bf16", "float32": fp32_mode(device)}
        return "+".join(sorted(names.get(dtype, dtype) for dtype in self.dtypes))


def layout_of(value):
    """How images lie in memory."""
    return "nhwc" if value.is_contiguous(memory_format=torch.channels_last) else "nchw"


def fp32_mode(device):
    """What float32 arithmetic is on this device now."""
    allowed = torch.backends.cuda.matmul.allow_tf32 and torch.backends.cudnn.allow_tf32
    return "tf32" if device.type == "cuda" and allowed else "fp32"


@contextlib.contextmanager
def watched(network, seen):
    """Note what the network's convolutions and linear layers give out."""
    layers = [module for module in network.modules() if isinstance(module, (nn.Conv2d, nn.Linear))]
    hooks = [layer.register_forward_hook(lambda module, args, output: seen.note(output)) for layer in layers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@contextlib.contextmanager
def undisturbed(network):
    """Dropout off, and the buffers (batch norm's running statistics) put back at the end."""
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
def plain_fp32():
    """float32 arithmetic in the full width of float32, and any attention: some implementations have no float32."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    matmul.allow_tf32 = cudnn.allow_tf32 = False
    try:
        with sdpa_kernel(ANY_ATTENTION):
            yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32 = before


def apart(values, references):
    """‖y - y32‖ / ‖y32‖ over all outputs."""
    difference = sum(_squares(y.double() - y32.double()) for y, y32 in zip(values, references))
    return (difference / sum(_squares(y32.double()) for y32 in references)) ** 0.5


def _squares(values):
    return values.square().sum().item()
