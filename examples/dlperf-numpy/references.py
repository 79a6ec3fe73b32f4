"""Write the references of both models, which parity compares every run with.

    python examples/dlperf-numpy/references.py

This is an implementation of its own, in float64, from the models' docstrings. Only the losses are written out. Their
gradients come from the complex step (Squire & Trapp 1998: ∂f/∂w = Im f(w + ih) / h, exact to rounding for a tiny h),
so no formula of a gradient is shared with the plugin. Known mistakes have trajectories as well, so that parity can
name them.
"""

import json
from pathlib import Path

import attrs
import numpy as np
from dlperf_numpy.framework import Linear, Softmax

from dlperf_sdk.interfaces.model import entry_to_dict
from dlperf_sdk.worker import canonical

STEPS, BATCH, SEED, TINY = 4, 8, 0, 1e-30
PLACE = Path(__file__).parent / "src" / "dlperf_numpy" / "references"
WHY = (
    "Float32 rounds to 6e-8. Over 4 steps the plugin's own float32 deviated by 2e-7 in the losses, and by 2.5e-6 "
    "in a first update, the small difference of two rounded weights. Others may sum in another order, so the "
    "bounds are twenty times that. The nearest known mistake is ten thousand bounds away."
)


def linear(weights, batch):
    """Return the loss of `dlperf_numpy.framework.Linear` for a batch with `x`, (B, features), and `y`, (B, 1)."""
    return ((batch["x"] @ weights["weight"].T - batch["y"]) ** 2).mean()


def softmax(weights, batch):
    """Return the loss of `dlperf_numpy.framework.Softmax` for a batch with `x`, (B, features), and `y`, (B,)."""
    z = batch["x"] @ weights["weight"].T
    return (np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(z)), batch["y"]]).mean()


def gradients(loss, weights, batch):
    """Return the gradient of `loss(weights, batch)` for each weight, by name, from a complex step per element."""
    slopes = {name: np.zeros(values.shape) for name, values in weights.items()}
    for name, values in weights.items():
        for place in np.ndindex(values.shape):
            moved = values.astype(complex)
            moved[place] += 1j * TINY
            slopes[name][place] = loss({**weights, name: moved}, batch).imag / TINY
    return slopes


def follow(model, loss, shards, combine):
    """Return the trajectories of replicas over `STEPS` steps, one per shard, in the format of a reference.

    Args:
        model: The model.
        loss: Function of the weights and a batch.
        shards: The canonical shards that the replicas train on.
        combine: Function of a list of the replicas' gradients of one weight; it returns the gradient for the update.

    Returns:
        Dictionaries with the `losses` of a replica and, for the first replica only, the fingerprints of the first
        `updates`.
    """
    options = model.Options()
    manifest = [entry_to_dict(entry) for entry in model.parameters(options)]
    inputs = [entry_to_dict(entry) for entry in model.inputs(options)]
    weights = {name: values.astype(float) for name, values in canonical.weights(manifest, SEED)}
    batches = [canonical.batch(inputs, BATCH, shard, SEED) for shard in shards]
    rate = model.optimizer(options, BATCH * len(shards)).numbers["learning_rate"]
    losses, updates = [], {}
    for _ in range(STEPS):
        losses.append([float(loss(weights, batch)) for batch in batches])
        per_replica = [gradients(loss, weights, batch) for batch in batches]
        for name, values in weights.items():
            weights[name] = values - rate * combine([slopes[name] for slopes in per_replica])
            updates.setdefault(name, canonical.fingerprint(name, weights[name], values))
    return [
        {"losses": list(column), "updates": updates if i == 0 else {}, "running_means": {}}
        for i, column in enumerate(zip(*losses, strict=True))
    ]


def mean(slopes):
    """Return the mean of a list of the replicas' gradients."""
    return sum(slopes) / len(slopes)


MISTAKES = {
    "gradients summed over the batch instead of averaged": (
        ("alone", "pair"),
        lambda slopes: BATCH * mean(slopes),
    ),
    "gradients summed over the replicas instead of averaged": (("pair",), sum),
    "every replica updates with the first replica's gradients": (("pair",), lambda slopes: slopes[0]),
}
"""Name of a mistake → the cases that it can be made in, and the function that it puts in the place of `mean`."""


def reference(model, loss):
    """Return the reference of a model as JSON values, in the format of `dlperf_sdk.parity.reference`."""
    shards = {"alone": [0], "pair": [0, 1]}
    case = {
        "options": attrs.asdict(model.Options()),
        "batch_size": BATCH,
        "seed": SEED,
        "steps": STEPS,
        "noise": {},
        "alone": [follow(model, loss, [shard], mean)[0] for shard in (0, 1)],
        "pair": follow(model, loss, [0, 1], mean),
        "mistakes": [
            {"name": name, "topology": place, "replicas": follow(model, loss, shards[place], combine)}
            for name, (places, combine) in MISTAKES.items()
            for place in places
        ],
    }
    fp32 = {"losses": 4e-6, "updates": 5e-5, "means": 5e-5, "least": 0.0, "parameter": 5e-5, "reason": WHY}
    return {
        "schema_version": "1.0",
        "model": model.name,
        "source": f"examples/dlperf-numpy/references.py, float64, NumPy {np.__version__}",
        "tolerances": {"fp32": fp32},
        "cases": {"small": case},
    }


if __name__ == "__main__":
    PLACE.mkdir(exist_ok=True)
    for model, loss in ((Linear(), linear), (Softmax(), softmax)):
        text = json.dumps(reference(model, loss), indent=1)
        (PLACE / f"{model.name}.json").write_text(text + "\n")
