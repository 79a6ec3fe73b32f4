"""The models' optimizers in MXNet, where its own deviate from the definitions of the models."""

import mxnet as mx
import numpy as np
from mxnet import gluon
from mxnet.contrib import amp

PIECE = 1 << 18
"""Number of elements whose squares one dot product sums."""


def updates_of(parameters, numbers, scales_loss):
    """Return a gluon Trainer, which updates each replica's weights; it does not synchronize gradients.

    Args:
        parameters: An iterable of gluon's parameters, which the Trainer updates.
        numbers: `Request.optimizer`: a dict of the kind, `sgd` or `adamw`, and its hyperparameters.
        scales_loss: True to give the Trainer a dynamic loss scaler; mixed precision must be switched on.

    Raises:
        ValueError: The kind of optimizer is neither `sgd` nor `adamw`.
    """
    # SGD updates four parameters in one loop over the largest one's elements: its threads share the work evenly where
    # the four are of a size.
    by_size = sorted(parameters, key=lambda parameter: np.prod(parameter.shape))
    updates = gluon.Trainer(by_size, optimizer(numbers), kvstore=None)
    if scales_loss:
        amp.init_trainer(updates)
    return updates


def clip(updates, parameters, parts):
    """Make the next update clip the gradients of each replica to a global norm, the optimizer's `clip_norm`.

    Args:
        updates: gluon's Trainer, whose optimizer is an `AdamW` with a `clip_norm`.
        parameters: An iterable of gluon's parameters, whose gradients form the norm.
        parts: The number by which each gradient is divided to get the mean: micro-batches times replicas times the
            constant loss scale.
    """
    updates.optimizer.rescale_grad = updates._scale / parts
    for gradients in zip(*(parameter.list_grad() for parameter in parameters)):
        updates.optimizer.clip(gradients)


def update(updates, parts):
    """Update all weights; return True if the loss scaler skipped the update because a gradient was not finite.

    Without a loss scaler, the result is False.

    Args:
        updates: gluon's Trainer.
        parts: The number by which each gradient is divided to get the mean: micro-batches times replicas times the
            constant loss scale.
    """
    # The loss scale does not tell of a skipped step: what is not finite halves the one after the next.
    before = updates.optimizer.num_update
    updates.update(parts)
    return updates.optimizer.num_update == before


def arrays_of(state):
    """Return a list of the arrays in `state`, the optimizer's state of one parameter; empty if it is None.

    `state` is otherwise an array or a tuple of arrays.
    """
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
    """Return an `SGD` or `AdamW` of this module with the request's hyperparameters.

    The weight decay of a parameter is the request's times its `wd_mult`, which `parameters.configure` sets.

    Args:
        numbers: `Request.optimizer`: a dict of the kind, `sgd` or `adamw`, and its hyperparameters.

    Raises:
        ValueError: The kind of optimizer is neither `sgd` nor `adamw`.
    """
    rate, decay = numbers["learning_rate"], numbers["weight_decay"]
    if numbers["kind"] == "sgd":
        return SGD(learning_rate=rate, momentum=numbers["momentum"], wd=decay)
    if numbers["kind"] == "adamw":
        betas = numbers["beta1"], numbers["beta2"]
        return AdamW(*betas, numbers["epsilon"], numbers.get("clip_norm"), learning_rate=rate, wd=decay)
    raise ValueError("the mxnet plugin has no optimizer %r" % numbers["kind"])


class SGD(mx.optimizer.SGD):
    """SGD with momentum and weight decay w: v ← momentum·v + g + w·θ;  θ ← θ - rate·v.

    MXNet's own SGD keeps -rate·v in place of v. When the rate changes, this class therefore scales the state. `numbers`
    are the arguments of MXNet's class: `learning_rate`, `momentum` and `wd`.
    """

    def __init__(self, **numbers):
        super().__init__(**numbers)
        self._states = []

    def create_state(self, index, weight):
        """Return the initial state -rate·v of one weight, zeros in the weight's shape; None without momentum.

        `index` is the weight's number in gluon's Trainer, and `weight` its array.
        """
        state = super().create_state(index, weight)
        if state is not None:
            self._states.append(state)
        return state

    def set_learning_rate(self, lr):
        """Set the learning rate of the next updates to `lr`, a number; scale the states, -rate·v, to the new rate."""
        if lr != self.lr:
            for state in self._states:
                state[:] = state * (lr / self.lr)
        super().set_learning_rate(lr)


class AdamW(mx.optimizer.Optimizer):
    """Adam with bias correction, decoupled weight decay, and clipping by the global norm.

    MXNet's operator has no bias correction. With c₁ = 1 - β₁ᵗ and c₂ = 1 - β₂ᵗ, the corrected (m / c₁) / (√(v / c₂) +
    ε) equals m / (√v + ε√c₂) · √c₂ / c₁, which the operator can compute. The operator rounds β to float32, where 1 -
    0.999 is off by 1.3e-5. c₁ and c₂ are computed from the rounded β, so that the updates are not off as well.

    Args:
        beta1: Decay rate β₁ of m.
        beta2: Decay rate β₂ of v.
        epsilon: ε.
        clip_norm: Largest global norm of a replica's gradients after `clip`; None if `clip` is never called.
        numbers: Further arguments of MXNet's optimizers: `learning_rate` and `wd`.
    """

    def __init__(self, beta1, beta2, epsilon, clip_norm, **numbers):
        super().__init__(**numbers)
        self.beta1, self.beta2 = float(np.float32(beta1)), float(np.float32(beta2))
        self.epsilon, self.clip_norm = epsilon, clip_norm
        self._shrink = {}

    def clip(self, gradients):
        """Make the next update of one replica multiply its gradients by min(1, `clip_norm` / their global norm).

        `clip_norm` is the constructor's. `gradients` is a list of the arrays of all gradients of the replica, on one
        device. The norm is taken after they are multiplied by `rescale_grad`, the attribute in which MXNet keeps the
        factor of all gradients. It is computed on the device; this call does not wait for it. The factor stays in
        effect for the device until the next call.
        """
        context = gradients[0].context
        norm = sum_of_squares(gradients).sqrt() * self.rescale_grad
        self._shrink[context] = mx.nd.minimum(self.clip_norm / norm, 1.0)

    def create_state(self, index, weight):
        """Return the initial moments m and v of one weight: a pair of zeros in the weight's shape, on its device.

        `index` is the weight's number in gluon's Trainer, and `weight` its array.
        """
        return tuple(mx.nd.zeros(weight.shape, weight.context, dtype=weight.dtype) for _ in range(2))

    def update(self, index, weight, grad, state):
        """Update one weight and its moments in place; gluon's Trainer calls this.

        `index` is the weight's number in gluon's Trainer; `weight` and `grad` are the arrays of the weight and its
        gradient, and `state` is the pair that `create_state` returned.
        """
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
    """Return the sum of the squares of all elements of a list of MXNet arrays: an array (1,).

    It is a sum of dot products of pieces, which is more exact. For the word embeddings of BERT-Base, 23 million
    elements of standard deviation 1, MXNet's `multi_sum_sq` and `norm` are off by 5 %, since they add one square after
    another in float32; a single dot product is off by 3e-4.
    """
    flat = [array.reshape((-1,)) for array in arrays]
    pieces = [values[i : i + PIECE] for values in flat for i in range(0, values.size, PIECE)]
    return mx.nd.concat(*[mx.nd.dot(piece, piece) for piece in pieces], dim=0).sum()
