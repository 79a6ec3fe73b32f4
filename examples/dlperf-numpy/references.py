"""The references of both models: what parity holds every run of them to.

    python examples/dlperf-numpy/references.py

An implementation of its own, in float64, from the models' docstrings. Only the losses are written out: their gradients
come from the complex step (Squire & Trapp 1998: ∂f/∂w = Im f(w + ih) / h, exact to rounding for a tiny h), so no
formula for a gradient is shared with the plugin. Known mistakes are followed as well, to be recognized by name.
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
    return ((batch["x"] @ weights["weight"].T - batch["y"]) ** 2).mean()


def softmax(weights, batch):
    z = batch["x"] @ weights["weight"].T
    return (np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(z)), batch["y"]]).mean()


def gradients(loss, weights, batch):
    """By the complex step, one element after the other."""
    found = {name: np.zeros(values.shape) for name, values in weights.items()}
    for name, values in weights.items():
        for place in np.ndindex(values.shape):
            moved = values.astype(complex)
            moved[place] += 1j * TINY
            found[name][place] = loss({**weights, name: moved}, batch).imag / TINY
    return found


def follow(model, loss, shards, meet):
    """The trajectories of replicas on these shards, whose gradients `meet` makes one of."""
    options = model.Options()
    manifest = [entry_to_dict(entry) for entry in model.parameters(options)]
    inputs = [entry_to_dict(entry) for entry in model.inputs(options)]
    weights = {name: values.astype(float) for name, values in canonical.weights(manifest, SEED)}
    batches = [canonical.batch(inputs, BATCH, shard, SEED) for shard in shards]
    rate = model.optimizer(options, BATCH * len(shards)).numbers["learning_rate"]
    losses, updates = [], {}
    for _ in range(STEPS):
        losses.append([float(loss(weights, batch)) for batch in batches])
        each = [gradients(loss, weights, batch) for batch in batches]
        for name, values in weights.items():
            weights[name] = values - rate * meet([found[name] for found in each])
            updates.setdefault(name, canonical.fingerprint(name, weights[name], values))
    return [
        {"losses": list(column), "updates": updates if i == 0 else {}, "running_means": {}}
        for i, column in enumerate(zip(*losses, strict=True))
    ]


def mean(found):
    return sum(found) / len(found)


MISTAKES = {
    "gradients summed over the batch instead of averaged": (
        ("alone", "pair"),
        lambda found: BATCH * mean(found),
    ),
    "gradients summed over the replicas instead of averaged": (("pair",), sum),
    "every replica updates with the first replica's gradients": (("pair",), lambda found: found[0]),
}
"""Name → where it can be made, and what it makes of the replicas' gradients."""


def reference(model, loss):
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
            {"name": name, "topology": place, "replicas": follow(model, loss, shards[place], meet)}
            for name, (places, meet) in MISTAKES.items()
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
