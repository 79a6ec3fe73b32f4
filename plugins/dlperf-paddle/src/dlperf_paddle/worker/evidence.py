"""What was in effect: types as they were seen at work, and how far they are from plain fp32."""

import contextlib

import paddle
from paddle import nn
from paddle.jit.dy2static.program_translator import StaticFunction

from dlperf_paddle.worker.runtime import set_tf32, tf32_is_on


class Seen:
    """The types of the values that were noted."""

    def __init__(self):
        self.dtypes = set()

    def note(self, value):
        """A layer's output, or the network's: `float32` of `paddle.float32`."""
        self.dtypes.add(str(value.dtype).rpartition(".")[2])

    def precision(self, device):
        """The types under the names of precisions; several are joined, and then none of them was in effect."""
        names = {"float16": "amp-fp16", "bfloat16": "amp-bf16", "float32": fp32_mode(device)}
        return "+".join(sorted(names.get(dtype, dtype) for dtype in self.dtypes))


def fp32_mode(device):
    """What float32 arithmetic is on this kind of device now."""
    return "tf32" if device == "cuda" and tf32_is_on() else "fp32"


def compiler(network):
    """What `to_static` made of this network's forward pass."""
    forward = network.forward
    if not isinstance(forward, StaticFunction):
        return "none"
    return "cinn" if forward._kwargs.get("backend") == "CINN" else "graph"


def layouts(network):
    """How images lie in memory, as its convolutions take them."""
    return {layer._data_format.lower() for layer in network.sublayers() if isinstance(layer, nn.Conv2D)}


@contextlib.contextmanager
def watched(network, seen):
    """Note what the network's convolutions and linear layers give out."""
    layers = [layer for layer in network.sublayers() if isinstance(layer, (nn.Conv2D, nn.Linear))]
    hooks = [
        layer.register_forward_post_hook(lambda layer, inputs, output: seen.note(output)) for layer in layers
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@contextlib.contextmanager
def undisturbed(network):
    """Batch norm's running statistics, which have no gradient, are put back at the end."""
    statistics = [value for _, value in network.named_parameters() if value.stop_gradient]
    before = [value.numpy() for value in statistics]
    try:
        yield
    finally:
        for value, values in zip(statistics, before):
            value.set_value(values)


@contextlib.contextmanager
def eager(network):
    """`to_static` has put itself into the network in place of `forward`; take it out for a while."""
    compiled = isinstance(network.forward, StaticFunction)
    if compiled:
        paddle.jit.enable_to_static(False)
    try:
        yield
    finally:
        if compiled:
            paddle.jit.enable_to_static(True)


@contextlib.contextmanager
def plain_fp32(device):
    """float32 arithmetic in the full width of float32."""
    if device != "cuda":
        yield
        return
    before = tf32_is_on()
    set_tf32(False)
    try:
        yield
    finally:
        set_tf32(before)


def apart(values, references):
    """‖y - y32‖ / ‖y32‖ over all outputs."""
    wide = [(y.astype("float64"), y32.astype("float64")) for y, y32 in zip(values, references)]
    difference = sum(float(((y - y32) ** 2).sum()) for y, y32 in wide)
    return (difference / sum(float((y32**2).sum()) for _, y32 in wide)) ** 0.5
