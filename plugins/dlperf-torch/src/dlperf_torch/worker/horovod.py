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
    """Averaging of each gradient as soon as the backward pass has added it up, as in `hvd.DistributedOptimizer`.

    The network's gradients are averaged, not those of the optimizer's weights, because in fp16 the optimizer updates
    master weights. Horovod exchanges several gradients at once if they are ready.

    Args:
        network: The network, an `nn.Module` on the device; hooks are added to its parameters.
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
        """Return a context manager: in it, backward passes do not average gradients."""
        self._deferred = True
        try:
            yield
        finally:
            self._deferred = False

    def finish(self):
        """Wait until the gradients of the last backward pass are averaged.

        If any gradients were averaged, set the attribute `strategy` to `horovod`.
        """
        for handle in self._handles:
            hvd.synchronize(handle)
            self.strategy = "horovod"
        self._handles.clear()

    def gradient_exchange(self, train):
        """Return a `TensorExchange` of tensors like the network's gradients, those of the last layers first.

        `train` is a function without arguments that takes one training step. It is called once, which creates the
        gradients.
        """
        train()
        # The last layers' gradients are the first in a backward pass.
        named = reversed(list(self.replicated.named_parameters()))
        return TensorExchange({name: torch.empty_like(parameter.grad) for name, parameter in named})


class TensorExchange(GradientExchange):
    """Tensors that Horovod averages over the replicas, as it averages gradients in a training step.

    Args:
        gradients: Dict: a parameter's name → a tensor with its gradient's shape and type, in the order of the exchange.
    """

    def __init__(self, gradients):
        self._gradients = gradients

    def run(self):
        """Average all tensors over the replicas, in place, and return when this has finished."""
        for handle in [average(name, gradient) for name, gradient in self._gradients.items()]:
            hvd.synchronize(handle)

    def fill(self, values):
        """Set all elements of the tensors to `values[0]`, the value of this process's one replica."""
        for gradient in self._gradients.values():
            gradient.fill_(values[0])

    def read(self, replica):
        """Yield a `Buffer` for each tensor, in the order of the exchange, with its values widened to float32.

        `replica` is not used: a process has one replica.
        """
        for name, gradient in self._gradients.items():
            values = gradient.to("cpu", torch.float32).numpy()
            yield Buffer("gradient " + name, values, gradient.numel() * gradient.element_size())


def average(name, gradient):
    """Enqueue Horovod's averaging of `gradient` over all replicas, in place; return a handle for `hvd.synchronize`.

    `name` identifies the gradient: it must be the same on all replicas. `gradient` is a tensor that is contiguous, or
    4-D in `channels_last`.
    """
    # Horovod takes contiguous tensors only; in nhwc a convolution's gradient is one when its axes are in that order.
    values = gradient if gradient.is_contiguous() else gradient.permute(0, 2, 3, 1)
    return hvd.allreduce_async_(values, name=name, op=hvd.Average)
