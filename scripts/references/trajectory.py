"""What every reference is made of: trajectories in float64, their fingerprints, and the document they go into.

Nothing here comes from a plugin: a model's own script writes the network and the optimizer out, from the page of the
model (the docstring of `dlperf_sdk.models.NAME`). Run in an environment that has torch, on a CPU.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import attrs
import torch

from dlperf_sdk.interfaces.model import Model, entry_to_dict
from dlperf_sdk.worker import canonical

STEPS = 4
ROOT = Path(__file__).resolve().parents[2]
KEPT = 6
"""Updates, and running means, that are kept of a mistake: those in which it differs most."""
Tensors = dict[str, torch.Tensor]
Product = Callable[..., torch.Tensor]
"""(a product of two tensors, the tensors) → the product, in some arithmetic."""


def exact(function: Product, *operands: torch.Tensor) -> torch.Tensor:
    """In the arithmetic that the operands have."""
    return function(*operands)


Storage = Callable[[torch.Tensor], torch.Tensor]
"""What is computed between two products → as it is stored."""


def as_is(x: torch.Tensor) -> torch.Tensor:
    """In the format that it is computed in."""
    return x


@dataclass(frozen=True)
class Setting:
    """A case, ready to be computed."""

    model: Model
    options: Mapping[str, Any]
    batch_size: int
    seed: int = 0
    floor: float = 0.0
    """The least noise of an update: more than one run in float32 shows, where rounding is a matter of luck."""

    def weights(self, dtype: torch.dtype) -> Tensors:
        """The canonical weights."""
        return {
            name: torch.tensor(values, dtype=dtype, requires_grad=True)
            for name, values in self.arrays.items()
        }

    @cached_property
    def arrays(self) -> dict[str, Any]:
        """The canonical weights as NumPy has them: drawn once for all trajectories."""
        manifest = [entry_to_dict(parameter) for parameter in self.model.parameters(self.resolved)]
        return dict(canonical.weights(manifest, self.seed))

    def batch(self, shard: int, dtype: torch.dtype) -> Tensors:
        """A canonical batch; whole numbers stay what they are."""
        inputs = [entry_to_dict(entry) for entry in self.model.inputs(self.resolved)]
        arrays = canonical.batch(inputs, self.batch_size, shard, self.seed)
        actual = {name: torch.from_numpy(values) for name, values in arrays.items()}
        return {
            name: value.to(dtype) if value.is_floating_point() else value for name, value in actual.items()
        }

    @property
    def resolved(self) -> Any:
        """The options as the model's own class has them."""
        return self.model.Options(**self.options)

    @property
    def decays(self) -> dict[str, bool]:
        """Parameter → whether weight decay applies to it."""
        return {parameter.name: parameter.decay for parameter in self.model.parameters(self.resolved)}

    def numbers(self) -> Mapping[str, Any]:
        """The optimizer's numbers; the rates of both models do not depend on the number of replicas here."""
        return self.model.optimizer(self.resolved, self.batch_size).numbers


@dataclass
class Followed:
    """What came of it: per replica the losses and running means, and the parameters' first update."""

    losses: list[list[float]] = field(default_factory=list)
    updates: list[Tensors] = field(default_factory=list)
    means: list[Tensors] = field(default_factory=list)


Forward = Callable[[Tensors, list[Tensors], Setting, Any], list[tuple[torch.Tensor, Tensors]]]
"""(parameters, the replicas' batches, setting, variant) → per replica its loss, and its running means after a step."""
Update = Callable[[Tensors, Tensors, dict[str, Tensors], int, Setting, Any], None]
"""(parameters, gradients, state, step from 1, setting, variant): changes parameters and state."""
Meet = Callable[[list[Tensors], Any, Setting], Tensors]
"""The replicas' gradients → those that each of them updates with."""


def follow(
    setting: Setting,
    shards: Sequence[int],
    forward: Forward,
    meet: Meet,
    update: Update,
    variant: Any,
    dtype: torch.dtype = torch.float64,
    steps: int = STEPS,
) -> Followed:
    """Train replicas on these shards, whose gradients meet in every step."""
    parameters = setting.weights(dtype)
    first = {name: value.detach().clone() for name, value in parameters.items()}
    batches = [setting.batch(shard, dtype) for shard in shards]
    actual = Followed([[] for _ in shards])
    state: dict[str, Tensors] = {}
    for step in range(1, steps + 1):
        results = forward(parameters, batches, setting, variant)
        gradients = []
        for i, (loss, _) in enumerate(results):
            last = i == len(results) - 1
            taken = torch.autograd.grad(
                loss, list(parameters.values()), retain_graph=not last, allow_unused=True
            )
            pairs = zip(parameters.items(), taken, strict=True)
            gradients.append({name: torch.zeros_like(p) if g is None else g for (name, p), g in pairs})
            actual.losses[i].append(float(loss.detach()))
        met = meet(gradients, variant, setting)
        with torch.no_grad():
            update(parameters, met, state, step, setting, variant)
        if step == 1:
            update_of = {n: p.detach().double() - first[n].double() for n, p in parameters.items()}
            actual.updates = [update_of for _ in shards]
            actual.means = [{n: m.detach().double() for n, m in means.items()} for _, means in results]
    return actual


# -- as a document


def rounded(number: float, digits: int = 12) -> float:
    """To so many significant digits: more would be the noise of the order of summation."""
    return float(f"{number:.{digits}g}")


def prints(arrays: Tensors) -> dict[str, list[float]]:
    """The fingerprints, to ten digits."""
    return {
        name: [rounded(number, 10) for number in canonical.fingerprint(name, value.numpy())]
        for name, value in arrays.items()
    }


def trajectories(actual: Followed) -> list[dict[str, Any]]:
    """As the document has them. The update of replicas that meet is one: the first has it."""
    return [
        {
            "losses": [rounded(loss) for loss in losses],
            "updates": prints(actual.updates[i]) if i == 0 else {},
            "running_means": prints(actual.means[i]),
        }
        for i, losses in enumerate(actual.losses)
    ]


def apart(one: Tensors, other: Tensors) -> dict[str, float]:
    """Name → ‖one - other‖ / ‖other‖; where the reference does not move at all, the norm of what moves."""
    actual = {}
    for name, value in other.items():
        distance, norm = float((one[name] - value).norm()), float(value.norm())
        actual[name] = distance / norm if norm else distance
    return actual


def noise(single: Followed, double: Followed, floor: float) -> dict[str, float]:
    """How far float32 is from float64 in updates and running means, where that is a millionth or more."""
    updates = apart(single.updates[0], double.updates[0])
    actual = {name: max(value, floor) for name, value in updates.items()}
    actual |= apart(single.means[0], double.means[0])
    return {name: rounded(value, 3) for name, value in actual.items() if value >= 1e-6}


def mistake(
    name: str, topology: str, wrong: Followed, right: Followed, noisy: Mapping[str, float]
) -> dict[str, Any]:
    """A mistake's entry: its losses, and the fingerprints in which it differs most, measured by their noise."""

    def most(kind: str, i: int) -> dict[str, list[float]]:
        ours, theirs = getattr(wrong, kind)[i], getattr(right, kind)[i]
        distances = {n: d / (1e-5 + noisy.get(n, 0.0)) for n, d in apart(ours, theirs).items()}
        chosen = [n for n in sorted(distances, key=lambda n: -distances[n])[:KEPT] if distances[n] > 0]
        return prints({name: value for name, value in ours.items() if name in chosen})

    replicas = [
        {
            "losses": [rounded(loss) for loss in losses],
            "updates": most("updates", i) if i == 0 else {},
            "running_means": most("means", i),
        }
        for i, losses in enumerate(wrong.losses)
    ]
    return {"name": name, "topology": topology, "replicas": replicas}


def case(
    setting: Setting,
    forward: Forward,
    meet: Meet,
    update: Update,
    right: Any,
    mistakes: Mapping[str, tuple[str, Any]],
    say: Callable[[str], None],
    heavy: bool = False,
) -> dict[str, Any]:
    """A case of the document; `mistakes` maps a name to the topologies it exists in and its variant.

    A `heavy` one has a single replica on shard 0, and nothing else.
    """

    def run(
        shards: Sequence[int], variant: Any, dtype: torch.dtype = torch.float64, steps: int = STEPS
    ) -> Followed:
        return follow(setting, shards, forward, meet, update, variant, dtype, steps)

    alone = [run([shard], right) for shard in ((0,) if heavy else (0, 1))]
    say(f"alone: {[actual.losses for actual in alone]}")
    together = None if heavy else run([0, 1], right)
    single = run([0], right, torch.float32)
    say(f"pair: {together and together.losses}; float32 alone: {single.losses}")
    noisy, wrong = noise(single, alone[0], setting.floor), []
    for name, (where, variant) in mistakes.items():
        if "alone" in where:
            actual = run([0], variant)
            wrong.append(mistake(name, "alone", actual, alone[0], noisy))
            say(f"{name}: {actual.losses}")
        if "pair" in where and together is not None:
            wrong.append(mistake(name, "pair", run([0, 1], variant), together, noisy))
            say(f"{name} (pair)")
    return {
        "options": attrs.asdict(setting.resolved),
        "batch_size": setting.batch_size,
        "seed": setting.seed,
        "steps": STEPS,
        "noise": noisy,
        "alone": [trajectories(actual)[0] for actual in alone],
        "pair": [] if together is None else trajectories(together),
        "mistakes": wrong,
    }


def write(path: Path, document: dict[str, Any]) -> None:
    """The document, a line per fingerprint, so that a change can be read."""
    text = json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False)
    path.write_text(_joined(text) + "\n", encoding="utf-8")


def _joined(text: str) -> str:
    """Lists of numbers on one line each."""
    return re.sub(r"\[\s+([-+0-9.e,\s]+?)\s+\]", lambda m: "[" + re.sub(r"\s+", " ", m[1]) + "]", text)


def main(
    model: str,
    cases: Mapping[str, Setting],
    forward: Forward,
    meet: Meet,
    update: Update,
    right: Any,
    mistakes: Mapping[str, tuple[tuple[str, ...], Any]],
    chosen: Sequence[str],
    heavy: Sequence[str] = (),
) -> None:
    """Compute the chosen cases, all unless some are named (`none` is one), and put them into the model's document.

    Its tolerances are kept: they are written by hand, one for each precision, from what `precisions.py` measures.

    The `heavy` ones take minutes and much memory: they have a single replica, and no mistakes.
    """
    path = next(iter(cases.values())).model.references
    assert path is not None, f"{model} has no references"
    document = (
        json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"tolerances": {}, "cases": {}}
    )
    for name in [name for name in chosen or cases if name != "none"]:
        print(f"{model} {name}", file=sys.stderr, flush=True)
        document["cases"][name] = case(
            cases[name],
            forward,
            meet,
            update,
            right,
            {} if name in heavy else mistakes,
            lambda text: print(f"  {text}", file=sys.stderr, flush=True),
            heavy=name in heavy,
        )
    ordered = {name: document["cases"][name] for name in cases if name in document["cases"]}
    script = Path(sys.argv[0]).resolve().relative_to(ROOT).as_posix()
    source = f"{script}, float64, torch {torch.__version__}"
    write(
        path,
        {
            "schema_version": "1.0",
            "model": model,
            "source": source,
            "tolerances": document["tolerances"],
            "cases": ordered,
        },
    )
