"""The models' optimizers, made of optax's parts, and the loss scale of fp16."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax

FIRST_SCALE = 2.0**15
GROWTH_STEPS = 2000
"""Good steps after which the scale doubles. It and the first scale are the defaults of most frameworks' loss
scalers."""


def optimizer_for(numbers, decays):
    """Return an `optax.GradientTransformation` for the request's optimizer.

    It clips the gradients' global norm if there is a `clip_norm`, and adds weight decay. It does not apply the learning
    rate: multiply its updates by -rate before they are added to the weights.

    Args:
        numbers: `Request.optimizer`: a dict of the kind, `sgd` or `adamw`, and its hyperparameters.
        decays: Dict: a parameter's name → True if it has weight decay.

    Raises:
        ValueError: The kind of optimizer is neither `sgd` nor `adamw`.
    """
    decay = optax.add_decayed_weights(numbers["weight_decay"], decays)
    if numbers["kind"] == "sgd":
        parts = [decay, optax.trace(numbers["momentum"])]
    elif numbers["kind"] == "adamw":
        parts = [_scale_by_adam(numbers["beta1"], numbers["beta2"], numbers["epsilon"]), decay]
    else:
        raise ValueError("the jax plugin has no optimizer %r" % numbers["kind"])
    clip = numbers.get("clip_norm")
    return optax.chain(*([optax.clip_by_global_norm(clip)] if clip else []), *parts)


def _scale_by_adam(beta1, beta2, epsilon):
    """Return the optax transformation of gradients to Adam's m̂ / (√v̂ + ε).

    Its state is that of `optax.scale_by_adam`, and only the bias corrections 1 - βᵗ differ. optax computes βᵗ in
    float32, which puts them off by 1e-5 in the first steps, and BERT's loss after two steps by 6e-6. With the
    corrections here, the loss is off by 1e-7. `beta1` and `beta2` are the decay rates of m and v; `epsilon` is ε.
    """

    def update(gradients, state, params=None):
        count = optax.safe_increment(state.count)
        mu = jax.tree.map(lambda m, g: beta1 * m + (1 - beta1) * g, state.mu, gradients)
        nu = jax.tree.map(lambda v, g: beta2 * v + (1 - beta2) * g * g, state.nu, gradients)
        bias1, bias2 = (-jnp.expm1(count * math.log(beta)) for beta in (beta1, beta2))
        updates = jax.tree.map(lambda m, v: m / bias1 / (jnp.sqrt(v / bias2) + epsilon), mu, nu)
        return updates, optax.ScaleByAdamState(count, mu, nu)

    return optax.GradientTransformation(optax.scale_by_adam().init, update)


class LossScale:
    """The policy for the loss scale; the trainer stores its state and passes it to each call.

    Args:
        constant: The scale, if `is_dynamic` is False.
        is_dynamic: True to halve the scale if a gradient is not finite, and to double it after `GROWTH_STEPS` steps
            with finite gradients; False to keep the scale constant.
    """

    def __init__(self, constant, is_dynamic):
        self._constant, self._is_dynamic = constant, is_dynamic

    def initial_state(self):
        """Return the state before the first step: a dict of NumPy scalars.

        The keys are `scale`, the loss scale, in float32; `good_steps`, the number of steps since the scale last
        changed; and `skipped`, the number of all skipped steps. The last two are int32.
        """
        scale = FIRST_SCALE if self._is_dynamic else self._constant
        return {"scale": np.float32(scale), "good_steps": np.int32(0), "skipped": np.int32(0)}

    def update(self, state, gradients, new, old):
        """Return a pair: the scale's state for the next step, and `old` if a gradient is not finite, else `new`.

        With a constant scale, the pair is always `state` and `new`.

        Args:
            state: The state before this step, a dict as `initial_state` returns it.
            gradients: A tree of this step's gradients.
            new: A tree of arrays after the update, such as weights.
            old: The same tree before the update.
        """
        if not self._is_dynamic:
            return state, new
        finite = jnp.stack([jnp.isfinite(value).all() for value in jax.tree.leaves(gradients)]).all()
        grows = state["good_steps"] + 1 >= GROWTH_STEPS
        good = {
            "scale": jnp.where(grows, 2 * state["scale"], state["scale"]),
            "good_steps": jnp.where(grows, 0, state["good_steps"] + 1),
            "skipped": state["skipped"],
        }
        overflow = {
            "scale": jnp.maximum(state["scale"] / 2, 1),
            "good_steps": jnp.int32(0),
            "skipped": state["skipped"] + 1,
        }
        return jax.tree.map(lambda a, b: jnp.where(finite, a, b), (good, new), (overflow, old))
