"""Evidence for the settings in effect: the types and layouts of layers, and plain float32 to compare with."""

import contextlib

import paddle
from paddle import nn
from paddle.jit.dy2static.program_translator import StaticFunction

from dlperf_paddle.worker.runtime import set_tf32, tf32_is_on


def allows_tf32(device):
    """Return True if Paddle's present settings allow float32 products in TF32; False on a CPU.

    `device` is the kind of device, `cpu` or `cuda`.
    """
    return device == "cuda" and tf32_is_on()


def compiler(network):
    """Return the compiler that `to_static` applied to the forward pass of `network`: `cinn`, `graph` or `none`.

    `network` is an `nn.Layer`.
    """
    forward = network.forward
    if not isinstance(forward, StaticFunction):
        return "none"
    return "cinn" if forward._kwargs.get("backend") == "CINN" else "graph"


def layouts(network):
    """Return the set of the layouts, `nchw` or `nhwc`, in which the convolutions of `network` take images.

    `network` is an `nn.Layer`. The set is empty without convolutions.
    """
    return {layer._data_format.lower() for layer in network.sublayers() if isinstance(layer, nn.Conv2D)}


@contextlib.contextmanager
def watch_products(network, note):
    """Return a context manager: in it, each output of the network's convolutions and linear layers is passed to `note`.

    `network` is an `nn.Layer`. `note` is a function of one tensor. It must return None, because another value would
    replace the output.
    """
    layers = [layer for layer in network.sublayers() if isinstance(layer, (nn.Conv2D, nn.Linear))]
    hooks = [layer.register_forward_post_hook(lambda layer, inputs, output: note(output)) for layer in layers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@contextlib.contextmanager
def preserve_state(network):
    """Return a context manager that, at its end, restores the running statistics of the network's batch norms.

    `network` is an `nn.Layer`.
    """
    statistics = [value for _, value in network.named_parameters() if value.stop_gradient]
    before = [value.numpy() for value in statistics]
    try:
        yield
    finally:
        for value, values in zip(statistics, before):
            value.set_value(values)


@contextlib.contextmanager
def eager(network):
    """Return a context manager: in it, `network` is called eagerly, although `to_static` has compiled it.

    `network` is an `nn.Layer`. If it is not compiled, the context manager does nothing.
    """
    compiled = isinstance(network.forward, StaticFunction)
    if compiled:
        paddle.jit.enable_to_static(False)
    try:
        yield
    finally:
        if compiled:
            paddle.jit.enable_to_static(True)


@contextlib.contextmanager
def use_plain_fp32(device):
    """Return a context manager in which Paddle computes float32 products in the full width of float32, without TF32.

    `device` is the kind of device, `cpu` or `cuda`.
    """
    if device != "cuda":
        yield
        return
    before = tf32_is_on()
    set_tf32(False)
    try:
        yield
    finally:
        set_tf32(before)
