"""The models' optimizers in OneFlow, clipping, and the learning rate schedule of a static graph."""

import numpy as np
import oneflow as flow

from dlperf_sdk.worker.schedule import decay_groups


def optimizer(parameters, request):
    """Return the framework's optimizer with the numbers of the request; the manifest decides which parameters decay.

    Args:
        parameters: Parameter by the manifest's name.
        request: The request, of which it reads `parameters` and `optimizer`.

    Raises:
        ValueError: the kind of optimizer is neither `sgd` nor `adamw`.
    """
    numbers = request.optimizer
    groups = [
        {"params": group, "weight_decay": decay}
        for group, decay in decay_groups(request.parameters, parameters, numbers["weight_decay"])
    ]
    rate = numbers["learning_rate" if numbers["policy"] == "constant" else "warmup_learning_rate"]
    if numbers["kind"] == "sgd":
        return flow.optim.SGD(groups, lr=rate, momentum=numbers["momentum"])
    if numbers["kind"] == "adamw":
        # OneFlow's kernels have β in float32, and its corrections 1 - βᵗ in float64: 1 - 0.999 would be off by
        # 1.3e-5 in one and not in the other, and so each update.
        betas = tuple(float(np.float32(numbers[name])) for name in ("beta1", "beta2"))
        return flow.optim.AdamW(groups, lr=rate, betas=betas, eps=numbers["epsilon"])
    raise ValueError("the oneflow plugin has no optimizer %r" % numbers["kind"])


def moments(optimizer, graph):
    """Yield (name, tensor) for each moment that an optimizer keeps.

    Args:
        optimizer: OneFlow's optimizer, which keeps the moments of eager training.
        graph: The `TrainingGraph`, which keeps those of a graph under its own names; None for eager training.
    """
    if graph is not None:
        yield from graph.moments()
        return
    for number, parameter in enumerate(p for group in optimizer.param_groups for p in group.parameters):
        for kind, values in optimizer._state[parameter].items():
            yield "%d.%s" % (number, kind), values


def warm_up(optimizer, numbers):
    """Return a graph's learning rate schedule with the warm-up of `dlperf_sdk.worker.schedule`.

    In W warm-up steps the factor of the rate is (step + 1) / W, at most 1. OneFlow's line from 1 / W to 1 takes W - 1
    steps.

    Args:
        optimizer: OneFlow's optimizer.
        numbers: `Request.optimizer`, of which it reads `warmup_steps`.
    """
    steps = numbers["warmup_steps"]
    return flow.optim.lr_scheduler.WarmUpLR(
        optimizer, warmup_factor=1 / steps, warmup_iters=max(1, steps - 1), warmup_method="linear"
    )


def clip_(parameters, norm):
    """Clip the parameters' gradients in place by their global norm, without waiting for the device.

    g ← g · min(1, norm / ‖g‖).
    """
    gradients = [parameter.grad for parameter in parameters]
    squares = flow.stack([(gradient * gradient).sum() for gradient in gradients])
    shrink = flow.clamp(norm / squares.sum().sqrt(), max=1.0)
    for gradient in gradients:
        gradient.mul_(shrink)
