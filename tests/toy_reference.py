"""A toy model with a reference of its own: least squares, by gradient descent in float64."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dlperf_numpy.framework import Linear

from dlperf_sdk.interfaces.model import entry_to_dict
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.worker import canonical

STEPS, BATCH, RATE = 3, 8, 0.05


def descent(shards: list[int], rate: float = RATE) -> list[dict[str, Any]]:
    """Least squares by gradient descent in float64, replicas' gradients averaged."""
    options = Linear.Options()
    manifest = [entry_to_dict(parameter) for parameter in Linear().parameters(options)]
    inputs = [entry_to_dict(entry) for entry in Linear().inputs(options)]
    first = dict(canonical.weights(manifest, 7))["weight"].astype("float64")
    batches = [canonical.batch(inputs, BATCH, shard, 7) for shard in shards]
    weight, losses, update = first.copy(), [[] for _ in shards], None
    for _ in range(STEPS):
        gradients = []
        for i, batch in enumerate(batches):
            x, y = (batch[name].astype("float64") for name in ("x", "y"))
            error = x @ weight.T - y
            losses[i].append(float((error**2).mean()))
            gradients.append(2 * error.T @ x / BATCH)
        weight = weight - rate * sum(gradients) / len(shards)
        update = canonical.fingerprint("weight", weight, first) if update is None else update
    return [
        {"losses": one, "updates": {"weight": update} if i == 0 else {}, "running_means": {}}
        for i, one in enumerate(losses)
    ]


def write(folder: Path) -> None:
    """The reference, as `mine.json`."""
    fine = {
        "losses": 1e-5,
        "updates": 1e-5,
        "means": 1e-5,
        "least": 0.0,
        "parameter": 1e-5,
        "reason": "float32",
    }
    case = {
        "options": {"learning_rate": RATE},
        "batch_size": BATCH,
        "seed": 7,
        "steps": STEPS,
        "learning_rate_policy": "constant",
        "noise": {},
        "alone": [descent([0])[0], descent([1])[0]],
        "pair": descent([0, 1]),
        "mistakes": [
            {"name": "twice the rate", "topology": where, "replicas": descent(shards, 2 * RATE)}
            for where, shards in (("alone", [0]), ("pair", [0, 1]))
        ],
    }
    document = {
        "schema_version": "1.0",
        "model": "mine",
        "source": "this test",
        "tolerances": {"fp32": fine},
        "cases": {"small": case},
    }
    (folder / "mine.json").write_text(json.dumps(document))


def registry(place: Path, topologies: dict[str, Any] | None = None, **changes: Any) -> Registry:
    """The toy model, with its reference in this folder; and launchers in place of others."""
    fields = {"name": "mine", "trainers": {"numpy": "dlperf_numpy.worker:Linear"}}
    fields |= {"references": place / "mine.json", **changes}
    return Registry({"models": {"mine": type("Mine", (Linear,), fields)}, "topologies": topologies or {}})
