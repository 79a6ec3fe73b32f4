"""The models' optimizers, where MXNet's own deviate from what the models lay down."""

import mxnet as mx
import numpy as np
from mxnet import gluon
from mxnet.contrib import amp

PIECE = 1 << 18
"""Elements whose squares are summed in one go."""


def updates_of(parameters, numbers, scales_loss):
    """Return gluon's Trainer of these parameters, with the optimizer of a request's `numbers`.

    It updates each replica's weights. With `scales_loss` it has a dynamic loss scaler.
    """
    # SGD updates four parameters in one loop over the largest one's elements: its threads share the work evenly where
    # the four are of a size.
    by_size = sorted(parameters, key=lambda parameter: np.prod(parameter.shape))
    updates = gluon.Trainer(by_size, optimizer(numbers), kvstore=None)
    if scales_loss:
        amp.init_trainer(updates)
    return updates


def clip(updates, parameters, parts):
    """Clip each replica's gradients by their global norm; they are sums over `parts` micro-batches and replicas."""
    updates.optimizer.rescale_grad = updates._scale / parts
    for gradients in zip(*(parameter.list_grad() for parameter in parameters)):
        updates.optimizer.clip(gradients)


def arrays_of(state):
    """Return the arrays of one parameter's state."""
    return [] if state is None else list(state) if isinstance(state, tuple) else [state]


def reset(updates):
    """Set what gluon's Trainer `updates` keeps of earlier steps to its state before the first step."""
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
    """Return the framework's optimizer with the numbers of the request; the manifest decides which parameters decay."""
    rate, decay = numbers["learning_rate"], numbers["weight_decay"]
    if numbers["kind"] == "sgd":
        return SGD(learning_rate=rate, momentum=numbers["momentum"], wd=decay)
    if numbers["kind"] == "adamw":
        betas = numbers["beta1"], numbers["beta2"]
        return AdamW(*betas, numbers["epsilon"], numbers.get("clip_norm"), learning_rate=rate, wd=decay)
    raise ValueError("the mxnet plugin has no optimizer %r" % numbers["kind"])


class SGD(mx.optimizer.SGD):
    """v ← momentum·v + g + w·θ;  θ ← θ - rate·v.

    MXNet keeps -rate·v, with the rate of each step in it. So where the rate changes, what is kept changes
    with it.
    """

    def __init__(self, **numbers):
        super().__init__(**numbers)
        self._states = []

    def create_state(self, index, weight):
        """Return the zeros of the state -rate·v for one weight; None without momentum."""
        state = super().create_state(index, weight)
        if state is not None:
            self._states.append(state)
        return state

    def set_learning_rate(self, lr):
        """Set the learning rate of the following steps."""
        if lr != self.lr:
            for state in self._states:
                state[:] = state * (lr / self.lr)
        super().set_learning_rate(lr)


class AdamW(mx.optimizer.Optimizer):
    """Adam with bias correction and decoupled decay, its gradients clipped by their common norm.

    MXNet's operator has no bias correction. In it, m / (√v + ε√c₂) · √c₂ / c₁ is what
    (m / c₁) / (√(v / c₂) + ε) is, for c₁ = 1 - β₁ᵗ and c₂ = 1 - β₂ᵗ. The operator has β in float32, so c is
    made of those: 1 - 0.999 is off by 1.3e-5 in float32, which each update would be off by otherwise.
    """

    def __init__(self, beta1, beta2, epsilon, clip_norm, **numbers):
        super().__init__(**numbers)
        self.beta1, self.beta2 = float(np.float32(beta1)), float(np.float32(beta2))
        self.epsilon, self.clip_norm = epsilon, clip_norm
        self._shrink = {}

    def clip(self, gradients):
        """Compute the norm of one replica's gradients (times `rescale_grad`), which scales its next updates down.

        Nothing here waits for the device.
        """
        context = gradients[0].context
        norm = sum_of_squares(gradients).sqrt() * self.rescale_grad
        self._shrink[context] = mx.nd.minimum(self.clip_norm / norm, 1.0)

    def create_state(self, index, weight):
        """Return the zeros of the moments m and v for one weight."""
        return tuple(mx.nd.zeros(weight.shape, weight.context, dtype=weight.dtype) for _ in range(2))

    def update(self, index, weight, grad, state):
        """Update one weight, in place, with its gradient and state; gluon's Trainer calls it."""
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
    """Return the sum of the squares of all elements, (1,).

    In pieces: over the word embeddings of BERT-Base, 23 million elements of deviation 1, MXNet's `multi_sum_sq`
    and `norm` are off by 5 % (they add one square after another in float32), and one dot product by 3e-4.
    """
    flat = [array.reshape((-1,)) for array in arrays]
    pieces = [values[i : i + PIECE] for values in flat for i in range(0, values.size, PIECE)]
    return mx.nd.concat(*[mx.nd.dot(piece, piece) for piece in pieces], dim=0).sum()
