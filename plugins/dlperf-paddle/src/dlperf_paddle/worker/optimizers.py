"""The models' optimizers in Paddle, and the factor that corrects the rounding of its AdamW."""

import numpy as np
import paddle
from paddle import nn

from dlperf_sdk.worker.schedule import decay_groups


def optimizer(parameters, request):
    """Return a Momentum or AdamW of `paddle.optimizer` with the request's hyperparameters.

    The manifest in the request says which parameters have weight decay. The optimizer clips the gradients' global norm
    if the request has a `clip_norm`.

    Args:
        parameters: Dict: a parameter's name in the manifest → its tensor.
        request: The request; `parameters` and `optimizer` are read.

    Raises:
        ValueError: The kind of optimizer is neither `sgd` nor `adamw`.
    """
    numbers = request.optimizer
    decays = {entry["name"] for entry in request.parameters if entry["decay"]}
    clip = numbers.get("clip_norm")
    common = {
        "learning_rate": numbers["learning_rate"],
        "grad_clip": None if clip is None else nn.ClipGradByGlobalNorm(clip),
    }
    if numbers["kind"] == "sgd":
        groups = [
            # None, not zero: a decay of zero is computed as any other.
            {"params": group, "weight_decay": decay or None}
            for group, decay in decay_groups(request.parameters, parameters, numbers["weight_decay"])
        ]
        return paddle.optimizer.Momentum(momentum=numbers["momentum"], parameters=groups, **common)
    if numbers["kind"] == "adamw":
        inner = {parameters[name].name for name in decays}
        return paddle.optimizer.AdamW(
            beta1=numbers["beta1"],
            beta2=numbers["beta2"],
            epsilon=numbers["epsilon"],
            parameters=[parameters[entry["name"]] for entry in request.parameters],
            weight_decay=numbers["weight_decay"],
            apply_decay_param_fun=inner.__contains__,
            **common,
        )
    raise ValueError("the paddle plugin has no optimizer %r" % numbers["kind"])


def rounding_of_adamw(beta1, beta2):
    """Yield, for step t = 1, 2, …, the factor of the learning rate that corrects the rounding of Paddle's AdamW.

    The factor is the exact value of √(1 - β₂ᵗ) / (1 - β₁ᵗ) divided by Paddle's value. Paddle computes βᵗ in float32.
    For β₂ = 0.999 and t = 3, its 1 - β₂ᵗ has a relative error of 1.4e-5, and the update one of half as much. The
    rounding of β itself needs no correction. `beta1` and `beta2` are the numbers β₁ and β₂. The generator has no end.
    """
    betas = np.array([beta1, beta2], np.float32)
    exact, rounded = betas.astype(np.float64), betas.copy()
    while True:
        first, second = (1 - exact) / (1 - rounded)
        yield float(second**0.5 / first)
        exact *= betas
        rounded *= betas
