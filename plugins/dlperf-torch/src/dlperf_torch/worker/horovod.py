"""Horovod as torch's strategy: an all-reduce of each gradient, which starts in the backward pass.

Only the environment of this strategy has Horovod, so the runtime imports this module for no other strategy.
"""

import contextlib
import functools

import horovod.torch as hvd
import torch

from dlperf_sdk.worker.exchange import Buffer, GradientExchange
from dlperf_torch.worker.exchange import Alone


class Horovod(Alone):
    """Averages each gradient once the backward pass has added it up, as `hvd.DistributedOptimizer` does.

    The hooks for that are on the network, because in fp16 the optimizer updates master weights, and the network's
    gradients are exchanged. Horovod fuses the gradients that are ready.

    Args:
        network: The network, whose parameters get the hooks.
        request: The request.
    """

    def __init__(self, network, request):
        super().__init__(network, request)
        self._deferred, self._handles = False, []
        for name, parameter in network.named_parameters():
            parameter.register_post_accumulate_grad_hook(functools.partial(self._enqueue, name))

    def _enqueue(self, name, parameter):
        if not self._deferred:
            self._handles.append(average(name, parameter.grad))

    @contextlib.contextmanager
    def defer(self):
        """Leave the gradients of backward passes on this replica while the context lasts."""
        self._deferred = True
        try:
            yield
        finally:
            self._deferred = False

    def finish(self):
        """Wait for the averages of the last backward pass; from the first one on, the strategy is `horovod`."""
        for handle in self._handles:
            hvd.synchronize(handle)
            self.strategy = "horovod"
        self._handles.clear()

    def gradient_exchange(self, train):
        """Return the exchange of arrays like the network's gradients, the last layers' first.

        `train` is a function without arguments that takes one training step. It is called once, which creates the
        gradients.
        """
        train()
        # The last layers' gradients are the first in a backward pass.
        named = reversed(list(self.replicated.named_parameters()))
        return TensorExchange({name: torch.empty_like(parameter.grad) for name, parameter in named})


class TensorExchange(GradientExchange):
    """Tensors that Horovod averages as a training step does.

    Args:
        gradients: Name of a gradient → its tensor.
    """

    def __init__(self, gradients):
        self._gradients = gradients

    def run(self):
        """Average all tensors in place, and wait for it."""
        for handle in [average(name, gradient) for name, gradient in self._gradients.items()]:
            hvd.synchronize(handle)

    def fill(self, values):
        """Set all elements to `values[0]`, the value of this process's one replica."""
        for gradient in self._gradients.values():
            gradient.fill_(values[0])

    def read(self, replica):
        """Yield the tensors, widened to float32; `replica` is not used, as there is only one."""
        for name, gradient in self._gradients.items():
            values = gradient.to("cpu", torch.float32).numpy()
            yield Buffer("gradient " + name, values, gradient.numel() * gradient.element_size())


def average(name, gradient):
    """Start to set a gradient to its mean over all replicas, in place; return a handle for `hvd.synchronize`.

    `name` is the same for this gradient on all replicas. `gradient` is a tensor that is contiguous, or in
    `channels_last`.
    """
    # Horovod takes contiguous tensors only; in nhwc a convolution's gradient is one when its axes are in that order.
    values = gradient if gradient.is_contiguous() else gradient.permute(0, 2, 3, 1)
    return hvd.allreduce_async_(values, name=name, op=hvd.Average)
