"""The float32 weights that the optimizer updates, if the network's own are narrower."""

import torch
from torch import nn
from torch.func import functional_call


class MasterWeights:
    """A network's parameters in float32, which the optimizer updates.

    The constructor converts the network's parameters in place to `dtype`, except those of batch norm. If `dtype` is
    narrower than float32, the float32 weights are copies of the parameters before the conversion; all other weights are
    the network's own.

    Args:
        network: The network, an `nn.Module` with float32 parameters.
        dtype: The `torch.dtype` of the network's weights.
    """

    def __init__(self, network, dtype):
        self._network = network
        self.named = dict(network.named_parameters())
        """Parameter's name → the float32 tensor that the optimizer updates."""
        norm_parameters = {
            id(p) for m in network.modules() if isinstance(m, nn.BatchNorm2d) for p in m.parameters()
        }
        narrow = {
            name: parameter
            for name, parameter in self.named.items()
            if parameter.dtype != dtype and id(parameter) not in norm_parameters
        }
        for name, parameter in narrow.items():
            master = self.named[name] = parameter.detach().clone()
            master.grad = torch.empty_like(master)
            parameter.data = parameter.data.to(dtype)
        self._narrow = list(narrow.values())
        self._masters = [self.named[name] for name in narrow]

    def __call__(self, *inputs):
        """Return what the network computes for these inputs with the float32 weights in place of its own."""
        return functional_call(self._network, self.named, inputs)

    def receive_gradients(self, loss_scale):
        """Copy the network's gradients to those of the float32 weights, and divide these by the number `loss_scale`.

        Gradients of weights that are the network's own are divided in place.
        """
        if self._narrow:
            torch._foreach_copy_(
                [parameter.grad for parameter in self._masters],
                [parameter.grad for parameter in self._narrow],
            )
        if loss_scale != 1:
            torch._foreach_div_([master.grad for master in self.named.values()], loss_scale)

    def round_into_network(self):
        """Set the network's weights to the float32 weights, rounded to the network's type.

        Do nothing if the network's type is float32.
        """
        if self._narrow:
            with torch.no_grad():
                torch._foreach_copy_(self._narrow, self._masters)
