"""The models' optimizers in MegEngine."""

import numpy as np
from megengine import optimizer as optimizers

from dlperf_sdk.worker.schedule import decay_groups


def optimizer(parameters, request):
    """Return an SGD or AdamW of `megengine.optimizer` with the request's hyperparameters.

    The manifest in the request says which parameters have weight decay.

    Args:
        parameters: Dict: a parameter's name in the manifest → MegEngine's parameter.
        request: The request; `parameters` and `optimizer` are read.

    Raises:
        ValueError: The kind of optimizer is neither `sgd` nor `adamw`.
    """
    numbers = request.optimizer
    groups = [
        {"params": group, "weight_decay": decay}
        for group, decay in decay_groups(request.parameters, parameters, numbers["weight_decay"])
        if group
    ]
    rate = numbers["learning_rate"]
    if numbers["kind"] == "sgd":
        return optimizers.SGD(groups, lr=rate, momentum=numbers["momentum"])
    if numbers["kind"] == "adamw":
        betas = (numbers["beta1"], numbers["beta2"])
        return optimizers.AdamW(groups, lr=rate, betas=betas, eps=numbers["epsilon"])
    raise ValueError("the megengine plugin has no optimizer %r" % numbers["kind"])


def reset(optimizer):
    """Set the moments and counts of `optimizer`, an optimizer that the function `optimizer` returned, to zero."""
    for states in optimizer._state.values():
        for values in states.values():
            values[...] = np.zeros(values.shape, np.float32)
