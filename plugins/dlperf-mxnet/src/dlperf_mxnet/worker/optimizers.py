"""The models' optimizers in MXNet, where its own deviate from the definitions of the models."""

import mxnet as mx
import numpy as np
from mxnet import gluon
from mxnet.contrib import amp

PIECE = 1 << 18
"""Number of elements whose squares one dot product sums."""


def updates_of(parameters, numbers, scales_loss):
    """Return gluon's Trainer, which updates each replica's weights; it synchronizes nothing.

    Args:
        parameters: gluon's parameters.
        numbers: `Request.optimizer`.
        scales_loss: True to give it a dynamic loss scaler.

    Raises:
        ValueError: the kind of optimizer is neither `sgd` nor `adamw`.
    """
    # SGD updates four parameters in one loop over the largest one's elements: its threads share the work evenly where
    # the four are of a size.
    by_size = sorted(parameters, key=lambda parameter: np.prod(parameter.shape))
    updates = gluon.Trainer(by_size, optimizer(numbers), kvstore=None)
    if scales_loss:
        amp.init_trainer(updates)
    return updates


def clip(updates, parameters, parts):
    """Have the next updates clip each replica's gradients by their global norm; the optimizer must be `AdamW`.

    Args:
        updates: gluon's Trainer.
        parameters: gluon's parameters.
        parts: The number of micro-batches times replicas that the gradients are sums over.
    """
    updates.optimizer.rescale_grad = updates._scale / parts
    for gradients in zip(*(parameter.list_grad() for parameter in parameters)):
        updates.optimizer.clip(gradients)


def arrays_of(state):
    """Return the arrays in the optimizer's state of one parameter, as a list; empty for no state."""
    return [] if state is None else list(state) if isinstance(state, tuple) else [state]


def reset(updates):
    """Set the moments, counts and loss scale of gluon's Trainer `updates` to those before the first step."""
    for updater in updates._updaters:
        for state in updater.states.values():
            for values in arrays_of(state):
                values[:] = 0.0
    for counts in updates.optimizer._all_index_update_counts.values():
        counts.clear()
    updates.optimizer.num_update = updates.optimizer.begin_num_update
    if hasattr(updates, "_amp_loss_scaler"):
        updates._amp_loss_scaler = type(updates._amp_loss_scaler)()


def optimizer(numbers):
    """Return the framework's optimizer with the numbers of the request; the manifest decides which parameters decay.

    Args:
        numbers: `Request.optimizer`.

    Raises:
        ValueError: the kind of optimizer is neither `sgd` nor `adamw`.
    """
    rate, decay = numbers["learning_rate"], numbers["weight_decay"]
    if numbers["kind"] == "sgd":
        return SGD(learning_rate=rate, momentum=numbers["momentum"], wd=decay)
    if numbers["kind"] == "adamw":
        betas = numbers["beta1"], numbers["beta2"]
        return AdamW(*betas, numbers["epsilon"], numbers.get("clip_norm"), learning_rate=rate, wd=decay)
    raise ValueError("the mxnet plugin has no optimizer %r" % numbers["kind"])


class SGD(mx.optimizer.SGD):
    """v ← momentum·v + g + w·θ;  θ ← θ - rate·v.

    MXNet's state is -rate·v with the rate of each step, so a change of the rate has to scale the state.
    """

    def __init__(self, **numbers):
        super().__init__(**numbers)
        self._states = []

    def create_state(self, index, weight):
        """Return the state -rate·v of one weight, zeros of its shape; None without momentum."""
        state = super().create_state(index, weight)
        if state is not None:
            self._states.append(state)
        return state

    def set_learning_rate(self, lr):
        """Set the learning rate of the following steps to `lr`, and scale the states accordingly."""
        if lr != self.lr:
            for state in self._states:
                state[:] = state * (lr / self.lr)
        super().set_learning_rate(lr)


class AdamW(mx.optimizer.Optimizer):
    """Adam with bias correction and decoupled decay, and clipping by the global norm.

    MXNet's operator has no bias correction. With c₁ = 1 - β₁ᵗ and c₂ = 1 - β₂ᵗ, the corrected (m / c₁) / (√(v / c₂) +
    ε) is m / (√v + ε√c₂) · √c₂ / c₁, which the operator computes. The operator has β in float32, and c is computed
    from that β: 1 - 0.999 is off by 1.3e-5 in float32, and each update would be as well.
    """

    def __init__(self, beta1, beta2, epsilon, clip_norm, **numbers):
        super().__init__(**numbers)
        self.beta1, self.beta2 = float(np.float32(beta1)), float(np.float32(beta2))
        self.epsilon, self.clip_norm = epsilon, clip_norm
        self._shrink = {}

    def clip(self, gradients):
        """Have the next updates on this device scale gradients down to `clip_norm` if their global norm is larger.

        `gradients` are those of one replica; the norm is that of the gradients times `rescale_grad`. Nothing waits
        for the device.
        """
        context = gradients[0].context
        norm = sum_of_squares(gradients).sqrt() * self.rescale_grad
        self._shrink[context] = mx.nd.minimum(self.clip_norm / norm, 1.0)

    def create_state(self, index, weight):
        """Return the moments m and v of one weight, zeros of its shape."""
        return tuple(mx.nd.zeros(weight.shape, weight.context, dtype=weight.dtype) for _ in range(2))

    def update(self, index, weight, grad, state):
        """Update one weight and its state, in place, with its gradient; gluon's Trainer calls this."""
        self._update_count(index)
        t = self._index_update_count[index]
        first, second = 1 - self.beta1**t, (1 - self.beta2**t) ** 0.5
        mean, variance = state
        shrink = self._shrink.get(weight.context)
        mx.nd.contrib.adamw_update(
            weight,
            grad,
            mean,
            variance,
            rescale_grad=self.rescale_grad if shrink is None else shrink * self.rescale_grad,
            lr=second / first,
            eta=self._get_lr(index),
            beta1=self.beta1,
            beta2=self.beta2,
            epsilon=self.epsilon * second,
            wd=self._get_wd(index),
            out=weight,
        )


def sum_of_squares(arrays):
    """Return the sum of the squares of all elements of some arrays, (1,).

    It adds dot products of pieces. Over the word embeddings of BERT-Base, 23 million elements of deviation 1, MXNet's
    `multi_sum_sq` and `norm` are off by 5 %, as they add one square after another in float32, and one dot product by
    3e-4.
    """
    flat = [array.reshape((-1,)) for array in arrays]
    pieces = [values[i : i + PIECE] for values in flat for i in range(0, values.size, PIECE)]
    return mx.nd.concat(*[mx.nd.dot(piece, piece) for piece in pieces], dim=0).sum()
