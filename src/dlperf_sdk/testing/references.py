"""Generate a model's reference: the float64 trajectories that parity compares every run with.

Write the model's mathematics as two functions on NumPy arrays, for the gradients and for the update of the optimizer,
from the docstring of the model and not from a plugin:

    from dlperf_sdk.testing.references import Implementation, Setting, make_case, write_reference

    right = Implementation(gradients, update)
    case = make_case(Setting(Linear(), {}, batch_size=8), right, mistakes)
    write_reference(Path("linear.json"), "linear", {"small": case}, source="references.py", tolerances=tolerances)

The gradients may come from any program that computes in float64, such as PyTorch on a CPU. Four things are generated
around them: trajectories of one and of two replicas, the deviation of float32, and the trajectories of mistakes, by
which parity names the cause of a failure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from attrs import field, frozen

from dlperf_sdk.documents import schema
from dlperf_sdk.interfaces.model import Model, entry_to_dict
from dlperf_sdk.parity.reference import REFERENCE_VERSION
from dlperf_sdk.worker import canonical
from dlperf_sdk.worker.schedule import learning_rate

STEPS = 4
"""Steps of each trajectory."""
_MISTAKE_ARRAYS = 6
"""Updates, and running means, that are written for a mistake: those that differ most."""
_LEAST_NOISE = 1e-6
Arrays = dict[str, Any]
"""Name → NumPy array."""


@frozen
class Setting:
    """Configuration of a model, for which a case of the model's reference is computed."""

    model: Model
    """The model."""
    options: Mapping[str, Any]
    """Options of the model: name → value. Those that are missing have their defaults."""
    batch_size: int
    """Samples per replica."""
    seed: int = 0
    """Seed of the canonical weights and batches."""
    noise_floor: float = 0.0
    """Least deviation of float32 of an update, where a single run may deviate less by chance."""
    learning_rate_policy: str = "constant"
    """Learning-rate policy, `constant` or `warmup`."""

    @property
    def resolved(self) -> Any:
        """The options as an instance of the model's `Options`."""
        return self.model.Options(**self.options)

    @property
    def decays(self) -> dict[str, bool]:
        """Name of each parameter → True if weight decay applies to it, else False."""
        return {parameter.name: parameter.decay for parameter in self.model.parameters(self.resolved)}

    def numbers(self, replicas: int = 1) -> Mapping[str, Any]:
        """Return a dict from the name of each number of the model's optimizer, such as `learning_rate`, to its value.

        `replicas` is the number of replicas, which determines the global batch size.
        """
        return self.model.optimizer(self.resolved, self.batch_size * replicas).numbers

    @cached_property
    def _canonical_weights(self) -> Arrays:
        manifest = [entry_to_dict(parameter) for parameter in self.model.parameters(self.resolved)]
        return dict(canonical.weights(manifest, self.seed))

    def weights(self, dtype: str) -> Arrays:
        """Return a copy of the canonical weights, as name of the parameter → array of the NumPy type `dtype`."""
        return {name: values.astype(dtype) for name, values in self._canonical_weights.items()}

    def batch(self, shard: int, dtype: str) -> Arrays:
        """Return the canonical batch of a shard, as name of the input → array.

        Args:
            shard: Index of the shard.
            dtype: NumPy type that arrays of real numbers are converted to; arrays of integers keep their type.
        """
        inputs = [entry_to_dict(entry) for entry in self.model.inputs(self.resolved)]
        batch = canonical.batch(inputs, self.batch_size, shard, self.seed)
        return {
            name: values.astype(dtype) if values.dtype.kind == "f" else values
            for name, values in batch.items()
        }


@frozen
class Pass:
    """Result of one forward and backward pass on one replica."""

    loss: float
    """Loss before the update."""
    gradients: Arrays
    """Gradient of each parameter, by name."""
    running_means: Arrays = field(factory=dict)
    """Running means of batch norms after the step."""


def average_gradients(gradients: Sequence[Arrays], numbers: Mapping[str, Any]) -> Arrays:
    """Return the mean over the replicas of each gradient, as name of the parameter → array.

    Args:
        gradients: For each replica, of which there is at least one, name of the parameter → gradient.
        numbers: Not used. Other implementations of `Implementation.synchronize` use these numbers of the optimizer.
    """
    return {name: sum(of_one[name] for of_one in gradients) / len(gradients) for name in gradients[0]}


@frozen
class Implementation:
    """Functions that compute a training step.

    Their argument `numbers` has the numbers of the model's optimizer at the global batch size: name → value.
    """

    gradients: Callable[[Arrays, Sequence[Arrays], Any], Sequence[Pass]]
    """`gradients(weights, batches, options)`, one pass per replica in their order. All replicas at once, because some
    layers, such as synchronized batch norm, connect them."""
    update: Callable[[Arrays, Arrays, dict[str, Any], int, Mapping[str, Any]], None]
    """`update(weights, gradients, state, step, numbers)` changes weights and state in place. Steps count from 1; the
    state is empty at first; `learning_rate` in the numbers is that of the step."""
    synchronize: Callable[[Sequence[Arrays], Mapping[str, Any]], Arrays] = average_gradients
    """`synchronize(gradients, numbers)` combines the replicas' gradients."""


@frozen
class Trajectory:
    """Trajectory of replicas that train together."""

    losses: Sequence[Sequence[float]]
    """Losses of each replica, one for each step."""
    updates: Arrays
    """First update of each parameter, which the replicas share."""
    running_means: Sequence[Arrays]
    """Running means of each replica after the first step."""


def train(
    setting: Setting, shards: Sequence[int], implementation: Implementation, dtype: str = "float64"
) -> Trajectory:
    """Train one replica per shard together, for `STEPS` (4) steps from the canonical weights; return the trajectory.

    Args:
        setting: Configuration of the model.
        shards: Index of the canonical shard of each replica; it trains on the batch of that shard in each step.
        implementation: Functions that compute a step.
        dtype: NumPy type of weights and inputs. The updates and running means in the trajectory are float64.
    """
    options, weights = setting.resolved, setting.weights(dtype)
    numbers = setting.numbers(len(shards))
    batches = [setting.batch(shard, dtype) for shard in shards]
    losses: list[list[float]] = [[] for _ in shards]
    updates, means, state = {}, [], {}  # type: Arrays, list[Arrays], dict[str, Any]
    for step in range(1, STEPS + 1):
        before = {name: values.astype("float64") for name, values in weights.items()} if step == 1 else {}
        passes = implementation.gradients(weights, batches, options)
        for of_replica, result in zip(losses, passes, strict=True):
            of_replica.append(float(result.loss))
        combined = implementation.synchronize([result.gradients for result in passes], numbers)
        rate = learning_rate(numbers, setting.learning_rate_policy, step - 1)
        implementation.update(weights, combined, state, step, {**numbers, "learning_rate": rate})
        if step == 1:
            updates = {name: weights[name].astype("float64") - values for name, values in before.items()}
            means = [_in_float64(result.running_means) for result in passes]
    return Trajectory(losses, updates, means)


def make_case(
    setting: Setting,
    implementation: Implementation,
    mistakes: Mapping[str, tuple[Iterable[str], Implementation]] | None = None,
    *,
    has_pair: bool = True,
    on_progress: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Compute a case of a reference, and return it as JSON values, as the schema `reference` describes it.

    It has the options, batch size, seed and number of steps; the deviation of float32 (`noise`); the correct
    trajectories of one replica (`alone`) and of two (`pair`); and the trajectories with each mistake.

    Args:
        setting: Configuration of the model.
        implementation: The correct implementation.
        mistakes: Name of a mistake → the topologies that it exists in, `alone` (one replica) or `pair` (two), and the
            implementation that makes it.
        has_pair: False for a network that is too large for more than one replica: the case has one correct trajectory.
        on_progress: Function that takes a line of text after each trajectory.
    """
    alone = []
    for shard in (0, 1) if has_pair else (0,):
        alone.append(train(setting, [shard], implementation))
        on_progress(f"shard {shard}: {alone[-1].losses}")
    pair = train(setting, [0, 1], implementation) if has_pair else None
    on_progress(f"pair: {pair and pair.losses}")
    noise: dict[str, float] = {}
    for shards, right in (([0], alone[0]), *((([1], alone[1]), ([0, 1], pair)) if pair is not None else ())):
        single = train(setting, shards, implementation, "float32")
        on_progress(f"float32 on shards {shards}: {single.losses}")
        for name, value in _measure_noise(single, right, setting.noise_floor).items():
            noise[name] = max(value, noise.get(name, 0.0))
    entries = []
    for name, (topologies, incorrect) in (mistakes or {}).items():
        for topology in topologies:
            right = alone[0] if topology == "alone" else pair
            if right is not None:
                trajectory = train(setting, [0] if topology == "alone" else [0, 1], incorrect)
                replicas = _describe_mistake(trajectory, right, noise)
                entries.append({"name": name, "topology": topology, "replicas": replicas})
                on_progress(f"{name} ({topology}): {trajectory.losses}")
    return {
        "options": attrs.asdict(setting.resolved),
        "batch_size": setting.batch_size,
        "seed": setting.seed,
        "steps": STEPS,
        "learning_rate_policy": setting.learning_rate_policy,
        "noise": noise,
        "alone": [_describe(trajectory)[0] for trajectory in alone],
        "pair": [] if pair is None else _describe(pair),
        "mistakes": entries,
    }


def write_reference(
    path: Path,
    model: str,
    cases: Mapping[str, Mapping[str, Any]],
    *,
    source: str,
    tolerances: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Write a reference in the schema `reference`, one line per fingerprint.

    If the file exists, its cases that are not in `cases` are kept. Missing parent directories are created.

    Args:
        path: The file, which `Model.references` names.
        model: Name of the model.
        cases: Name → case from `make_case`.
        source: The program that computed the cases, with its versions.
        tolerances: Precision → its tolerances (`dlperf_sdk.parity.reference.Tolerance`); None keeps those of the
            file, which are none for a new file.

    Raises:
        DocumentError: The document breaks the schema. Nothing was written.
        ValueError: The existing file is not JSON, or a number is not finite. Nothing was written.
        OSError: The file cannot be read or written.
    """
    existing = (
        json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"tolerances": {}, "cases": {}}
    )
    document = {
        "schema_version": REFERENCE_VERSION,
        "model": model,
        "source": source,
        "tolerances": existing["tolerances"] if tolerances is None else tolerances,
        "cases": {**existing["cases"], **cases},
    }
    schema.check("reference", document)
    text = json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False)
    on_one_line = re.sub(
        r"\[\s+([-+0-9.e,\s]+?)\s+\]", lambda numbers: f"[{' '.join(numbers[1].split())}]", text
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(on_one_line + "\n", encoding="utf-8")


def _in_float64(arrays: Arrays) -> Arrays:
    return {name: np.array(values, "float64") for name, values in arrays.items()}


def _round(number: float, digits: int) -> float:
    """Round to significant digits; the digits after them depend on the order of summation."""
    return float(f"{number:.{digits}g}")


def fingerprints(arrays: Arrays) -> dict[str, list[float]]:
    """Return a dict from the name of each array to its fingerprint: its 2-norm, then eight projections.

    The projections are on vectors of random signs, which follow from the array's name. The numbers are rounded to ten
    significant digits.
    """
    return {
        name: [_round(number, 10) for number in canonical.fingerprint(name, values)]
        for name, values in arrays.items()
    }


def _describe(trajectory: Trajectory) -> list[dict[str, Any]]:
    """Return the trajectories of the replicas as JSON values; the first has the updates, which they share."""
    return [
        {
            "losses": [_round(loss, 12) for loss in losses],
            "updates": fingerprints(trajectory.updates) if replica == 0 else {},
            "running_means": fingerprints(trajectory.running_means[replica]),
        }
        for replica, losses in enumerate(trajectory.losses)
    ]


def _deviations(arrays: Arrays, right: Arrays) -> dict[str, float]:
    """Return each array's distance from the correct one relative to its norm; absolute where that norm is zero."""
    deviations = {}
    for name, value in right.items():
        distance, norm = float(np.linalg.norm(arrays[name] - value)), float(np.linalg.norm(value))
        deviations[name] = distance / norm if norm else distance
    return deviations


def _measure_noise(single: Trajectory, right: Trajectory, floor: float) -> dict[str, float]:
    """Return the deviations of float32 in updates and running means that are at least `_LEAST_NOISE`."""
    updates = {name: max(value, floor) for name, value in _deviations(single.updates, right.updates).items()}
    of_replicas = [
        _deviations(*means) for means in zip(single.running_means, right.running_means, strict=True)
    ]
    means = {name: max(deviations[name] for deviations in of_replicas) for name in of_replicas[0]}
    noise = updates | means
    return {name: _round(value, 3) for name, value in noise.items() if value >= _LEAST_NOISE}


def _describe_mistake(
    incorrect: Trajectory, right: Trajectory, noise: Mapping[str, float]
) -> list[dict[str, Any]]:
    """Return the trajectories of a mistake, with the fingerprints that differ most relative to their noise."""

    def select(arrays: Arrays, right: Arrays) -> Arrays:
        distances = {
            name: value / (1e-5 + noise.get(name, 0.0)) for name, value in _deviations(arrays, right).items()
        }
        largest = sorted(distances, key=lambda name: -distances[name])[:_MISTAKE_ARRAYS]
        return {name: value for name, value in arrays.items() if name in largest and distances[name] > 0}

    updates = select(incorrect.updates, right.updates)
    means = [select(*pair) for pair in zip(incorrect.running_means, right.running_means, strict=True)]
    return _describe(Trajectory(incorrect.losses, updates, means))
