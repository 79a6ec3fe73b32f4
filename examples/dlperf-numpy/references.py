"""Write the references of both models, which parity compares every run with.

    python examples/dlperf-numpy/references.py

This is an implementation of its own, in float64, from the models' docstrings. Only the losses are written out. Their
gradients come from the complex step (Squire & Trapp 1998: ∂f/∂w = Im f(w + ih) / h, exact to rounding for a tiny h),
so no formula of a gradient is shared with the plugin. Known mistakes have trajectories as well, so that parity can
name them.
"""

from pathlib import Path

import numpy as np
from attrs import evolve
from dlperf_numpy.framework import Linear, Softmax

from dlperf_sdk.testing.references import (
    Implementation,
    Pass,
    Setting,
    average_gradients,
    make_case,
    write_reference,
)

BATCH, TINY = 8, 1e-30
PLACE = Path(__file__).parent / "src" / "dlperf_numpy" / "references"
WHY = (
    "Float32 rounds to 6e-8. Over 4 steps the plugin's own float32 deviated by 2e-7 in the losses, and by 2.5e-6 "
    "in a first update, the small difference of two rounded weights. Others may sum in another order, so the "
    "bounds are twenty times that. The nearest known mistake is ten thousand bounds away."
)


def linear(weights, batch):
    """Return the loss of `dlperf_numpy.framework.Linear` for a batch with `x`, (B, features), and `y`, (B, 1).

    `weights` holds `weight`, (1, features), which may be complex.
    """
    return ((batch["x"] @ weights["weight"].T - batch["y"]) ** 2).mean()


def softmax(weights, batch):
    """Return the loss of `dlperf_numpy.framework.Softmax` for a batch with `x`, (B, features), and `y`, (B,).

    `weights` holds `weight`, (classes, features), which may be complex.
    """
    z = batch["x"] @ weights["weight"].T
    return (np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(z)), batch["y"]]).mean()


def implementation(loss):
    """Return the correct implementation of a model with this loss: plain gradient descent."""
    return Implementation(
        lambda weights, batches, options: [differentiate(loss, weights, batch) for batch in batches], descend
    )


def differentiate(loss, weights, batch):
    """Return a `Pass`: the loss, and its gradient for each weight, from a complex step per element.

    `loss` is a function of weights and a batch, both arrays by name.
    """
    gradients = {name: np.zeros_like(values) for name, values in weights.items()}
    for name, values in weights.items():
        for place in np.ndindex(values.shape):
            moved = values + 0j
            moved[place] += 1j * TINY
            gradients[name][place] = loss({**weights, name: moved}, batch).imag / TINY
    return Pass(loss(weights, batch), gradients)


def descend(weights, gradients, state, step, numbers):
    """Update the weights, float64 arrays by name, in place with `numbers["learning_rate"]`; the state is not used."""
    for name, gradient in gradients.items():
        weights[name] -= numbers["learning_rate"] * gradient


def mistakes(right):
    """Return the known mistakes: name → the topologies that each can be made in, and its implementation.

    `right` is the correct `Implementation`.
    """

    def sum_over_batch(gradients, numbers):
        return {name: BATCH * value for name, value in average_gradients(gradients, numbers).items()}

    def sum_over_replicas(gradients, numbers):
        return {name: sum(of_one[name] for of_one in gradients) for name in gradients[0]}

    def take_first(gradients, numbers):
        return gradients[0]

    return {
        "gradients summed over the batch instead of averaged": (
            ("alone", "pair"),
            evolve(right, synchronize=sum_over_batch),
        ),
        "gradients summed over the replicas instead of averaged": (
            ("pair",),
            evolve(right, synchronize=sum_over_replicas),
        ),
        "every replica updates with the first replica's gradients": (
            ("pair",),
            evolve(right, synchronize=take_first),
        ),
    }


if __name__ == "__main__":
    fp32 = {"losses": 4e-6, "updates": 5e-5, "means": 5e-5, "least": 0.0, "parameter": 5e-5, "reason": WHY}
    for model, loss in ((Linear(), linear), (Softmax(), softmax)):
        right = implementation(loss)
        case = make_case(Setting(model, {}, BATCH), right, mistakes(right))
        source = f"examples/dlperf-numpy/references.py, float64, NumPy {np.__version__}"
        write_reference(
            PLACE / f"{model.name}.json",
            model.name,
            {"small": case},
            source=source,
            tolerances={"fp32": fp32},
        )
