"""The models' optimizers, of MindSpore's fused operators: one call per parameter, and nothing to compile.

The classes of `mindspore.experimental.optim` compile their update first, and its AdamW does so again in every step, for
the values of the gradients.
"""

from typing import Tuple

import mindspore as ms
import numpy as np
from mindspore import ops


class Optimizer:
    """A list of parameters, their moments, and the update of one step; the base of `Sgd` and `AdamW`.

    Args:
        parameters: List of MindSpore's parameters, in the order of the gradients.
        decays: List of the factor of weight decay of each parameter; 0 for none.
        numbers: The request's `optimizer`: a dict of hyperparameters.

    Attributes:
        moments: Dict: name of a moment → list of MindSpore's parameters with its values, one for each of `parameters`.
        updates: Number of updates so far.
    """

    kinds: Tuple[str, ...] = ()
    """Names of the moments that each parameter has."""

    def __init__(self, parameters, decays, numbers):
        self.parameters, self.decays, self.numbers = parameters, decays, numbers
        self.moments = {
            kind: [ms.Parameter(ops.zeros_like(parameter)) for parameter in parameters] for kind in self.kinds
        }
        self.updates = 0

    def update(self, rate, gradients):
        """Update all parameters in place with the learning rate `rate`, a number, and add 1 to `updates`.

        `gradients` has a tensor per parameter, in the order of the parameters.
        """
        self.updates += 1
        self.apply(rate, gradients)

    def apply(self, rate, gradients):
        """Update all parameters and moments in place with the learning rate `rate`; a subclass implements this.

        `rate` is a number, and `gradients` has a tensor per parameter, in the order of the parameters. `update` calls
        this after it has added 1 to `updates`.

        Raises:
            NotImplementedError: The subclass does not implement it.
        """
        raise NotImplementedError

    def reset(self):
        """Set all moments and the count of updates to zero."""
        self.updates = 0
        for values in self.moments.values():
            for value in values:
                value.set_data(ops.zeros_like(value))


class Sgd(Optimizer):
    """SGD with momentum and weight decay w: g ← g + w·θ;  v ← momentum·v + g;  θ ← θ - rate·v.

    The arguments are those of `Optimizer`.
    """

    kinds = ("velocity",)

    def __init__(self, parameters, decays, numbers):
        super().__init__(parameters, decays, numbers)
        self._operators = {decay: ops.SGD(weight_decay=decay) for decay in set(decays)}
        self._momentum = ms.Tensor(numbers["momentum"], ms.float32)
        # A flag of the operator: 1 would have it replace the velocity by the gradient.
        self._flags = [ms.Parameter(ops.zeros_like(parameter)) for parameter in parameters]

    def apply(self, rate, gradients):
        """Update all parameters and their velocities in place with the learning rate `rate`, a number.

        `gradients` has a tensor per parameter, in the order of the parameters.
        """
        rate = ms.Tensor(rate, ms.float32)
        rows = zip(self.parameters, gradients, self.moments["velocity"], self._flags, self.decays)
        for parameter, gradient, velocity, flag, decay in rows:
            self._operators[decay](parameter, gradient, rate, velocity, self._momentum, flag)


class AdamW(Optimizer):
    """AdamW: Adam with bias correction, and weight decay apart from the gradient.

    MindSpore's operator has no bias correction: θ ← θ - r·(m / (√v + e) + d·θ). With c = 1 - β₁ᵗ and s = √(1 - β₂ᵗ),
    the corrected update m/c / (√v/s + ε) + w·θ is the operator's with r = rate·s/c, e = ε·s and d = w·c/s. The
    arguments are those of `Optimizer`.
    """

    kinds = ("exp_avg", "exp_avg_sq")

    def __init__(self, parameters, decays, numbers):
        super().__init__(parameters, decays, numbers)
        self._operator = ops.AdamWeightDecay()

    def apply(self, rate, gradients):
        """Update all parameters and their moments in place with the learning rate `rate`, a number.

        `gradients` has a tensor per parameter, in the order of the parameters. The attribute `updates` must be the
        number of this update, counted from 1.
        """
        # The operator computes with float32's 0.999, of which 1 - β₂ differs by 1.3e-5: so must the correction.
        beta1, beta2 = (float(np.float32(self.numbers[name])) for name in ("beta1", "beta2"))
        first = 1 - beta1**self.updates
        second = (1 - beta2**self.updates) ** 0.5
        rate, epsilon = rate * second / first, self.numbers["epsilon"] * second
        rows = zip(self.parameters, *self.moments.values(), self.decays, gradients)
        for parameter, mean, square, decay, gradient in rows:
            self._operator(
                parameter, mean, square, rate, beta1, beta2, epsilon, decay * first / second, gradient
            )


OPTIMIZERS = {"sgd": Sgd, "adamw": AdamW}
"""Kind of optimizer in a request → its class."""


def optimizer(parameters, request):
    """Return the plugin's `Sgd` or `AdamW` with the request's hyperparameters.

    The manifest in the request says which parameters have weight decay.

    Args:
        parameters: List of MindSpore's parameters, in the manifest's order.
        request: The request; `parameters` and `optimizer` are read.

    Raises:
        ValueError: The kind of optimizer is neither `sgd` nor `adamw`.
    """
    numbers = request.optimizer
    if numbers["kind"] not in OPTIMIZERS:
        raise ValueError("the mindspore plugin has no optimizer %r" % numbers["kind"])
    decays = [numbers["weight_decay"] if entry["decay"] else 0.0 for entry in request.parameters]
    return OPTIMIZERS[numbers["kind"]](parameters, decays, numbers)
