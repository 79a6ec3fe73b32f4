"""The models' optimizers in OneFlow, clipping, and the learning rate schedule of a static graph."""

import numpy as np
import oneflow as flow

from dlperf_sdk.worker.schedule import decay_groups


def optimizer(parameters, request):
    """Return an SGD or AdamW of `oneflow.optim` with the request's hyperparameters.

    The manifest in the request says which parameters have weight decay. With the policy `warmup`, the optimizer's
    learning rate is the hyperparameter `warmup_learning_rate`, the rate after the warm-up.

    Args:
        parameters: Dict: a parameter's name in the manifest → its tensor.
        request: The request; `parameters` and `optimizer` are read.

    Raises:
        ValueError: The kind of optimizer is neither `sgd` nor `adamw`.
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
    """Yield (name, tensor) for each of the optimizer's moments.

    Args:
        optimizer: OneFlow's optimizer, which holds the moments in eager training. A name is then NUMBER.MOMENT, with
            the number of the parameter in the optimizer, from 0.
        graph: The `TrainingGraph`, whose `moments` are yielded instead; None for eager training.
    """
    if graph is not None:
        yield from graph.moments()
        return
    for number, parameter in enumerate(p for group in optimizer.param_groups for p in group.parameters):
        for kind, values in optimizer._state[parameter].items():
            yield "%d.%s" % (number, kind), values


def warm_up(optimizer, numbers):
    """Return a learning rate schedule of OneFlow for a graph: the warm-up of `dlperf_sdk.worker.schedule`.

    In step s, counted from 0, the rate is multiplied by min(1, (s + 1) / W) for W = `warmup_steps`. OneFlow's linear
    schedule begins at 1 / W and reaches 1 after W - 1 steps.

    Args:
        optimizer: OneFlow's optimizer, whose learning rate is that after the warm-up.
        numbers: `Request.optimizer`; `warmup_steps` is read.
    """
    steps = numbers["warmup_steps"]
    return flow.optim.lr_scheduler.WarmUpLR(
        optimizer, warmup_factor=1 / steps, warmup_iters=max(1, steps - 1), warmup_method="linear"
    )


def clip_(parameters, norm):
    """Clip the gradients of `parameters`, a list, in place to the global norm `norm`, without waiting for the device.

    Each gradient is multiplied by min(1, norm / ‖g‖), where ‖g‖ is the norm of all gradients together. Every parameter
    must have a gradient.
    """
    gradients = [parameter.grad for parameter in parameters]
    squares = flow.stack([(gradient * gradient).sum() for gradient in gradients])
    shrink = flow.clamp(norm / squares.sum().sqrt(), max=1.0)
    for gradient in gradients:
        gradient.mul_(shrink)
