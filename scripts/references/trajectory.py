r"""References from torch: a forward pass and an optimizer in the form that `dlperf_sdk.testing.references` takes.

Nothing here comes from a plugin: a model's own script writes the network and the optimizer out, from the page of the
model (the docstring of `dlperf_sdk.models.NAME`). Run it on a CPU, in torch's environment with the packages that
`dlperf_sdk.testing` imports:

    python scripts/in_environment.py torch --with attrs --with cattrs --with jsonschema --with jsonschema-rs \
      --with pytest --with PyYAML -- scripts/references/bert_base.py small
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from dlperf_sdk.testing.references import (
    Arrays,
    Implementation,
    Pass,
    Setting,
    make_case,
    write_reference,
)
from dlperf_sdk.worker.schedule import learning_rate

ROOT = Path(__file__).resolve().parents[2]
Tensors = dict[str, torch.Tensor]
Product = Callable[..., torch.Tensor]
"""(a product of two tensors, the tensors) → the product, in some arithmetic."""


def exact(function: Product, *operands: torch.Tensor) -> torch.Tensor:
    """Return `function` of the operands, computed in the number format that the operands have."""
    return function(*operands)


Storage = Callable[[torch.Tensor], torch.Tensor]
"""What is computed between two products → as it is stored."""


def as_is(x: torch.Tensor) -> torch.Tensor:
    """Return x unchanged: it is stored in the format that it is computed in."""
    return x


Forward = Callable[[Tensors, list[Tensors], Setting, Any], list[tuple[torch.Tensor, Tensors]]]
"""(parameters, the replicas' batches, setting, variant) → per replica its loss, and its running means after a step."""
Update = Callable[[Tensors, Tensors, dict[str, Any], int, Setting, Mapping[str, Any], Any], None]
"""(parameters, gradients, state, step from 1, setting, numbers of the step, variant): changes parameters and state."""
Meet = Callable[[list[Tensors], Any, Setting], Tensors]
"""The replicas' gradients → those that each of them updates with."""


def implementation(
    setting: Setting, forward: Forward, meet: Meet, update: Update, variant: Any
) -> Implementation:
    """Return the functions of a training step, as `train` takes them, of one variant of a network and optimizer.

    The gradients come from torch.autograd.

    Args:
        setting: The case.
        forward: The forward pass, a `Forward`.
        meet: The synchronization of gradients, a `Meet`.
        update: The optimizer, an `Update`.
        variant: The variant of the computation, which the three functions get as an argument.
    """

    def gradients(weights: Arrays, batches: Sequence[Arrays], options: Any) -> list[Pass]:
        parameters = {name: value.requires_grad_() for name, value in tensors(weights).items()}
        passes, results = [], forward(parameters, [tensors(batch) for batch in batches], setting, variant)
        for replica, (loss, means) in enumerate(results):
            computed = torch.autograd.grad(
                loss,
                list(parameters.values()),
                retain_graph=replica < len(results) - 1,
                allow_unused=True,
                materialize_grads=True,
            )
            passes.append(
                Pass(
                    float(loss.detach()),
                    dict(zip(parameters, computed, strict=True)),
                    {name: mean.detach().numpy() for name, mean in means.items()},
                )
            )
        return passes

    def synchronize(gradients: Sequence[Tensors], numbers: Mapping[str, Any]) -> Tensors:
        return meet(list(gradients), variant, setting)

    def change(
        weights: Arrays, gradients: Tensors, state: dict[str, Any], step: int, numbers: Mapping[str, Any]
    ) -> None:
        with torch.no_grad():  # the tensors share their memory with the arrays
            update(tensors(weights), gradients, state, step, setting, numbers, variant)

    return Implementation(gradients, change, synchronize)


def rate_of(setting: Setting, numbers: Mapping[str, Any], rates: str) -> float:
    """Return the learning rate of a step.

    Args:
        setting: The case.
        numbers: Numbers of the step, whose `learning_rate` is that of the policy.
        rates: `scheduled` for the rate of the policy; `first` for that of the first step, `full` for that after the
            warm-up, which are mistakes.
    """
    if rates == "first":
        return learning_rate(numbers, setting.learning_rate_policy, 0)
    return float(numbers["warmup_learning_rate" if rates == "full" else "learning_rate"])


def tensors(arrays: Arrays) -> Tensors:
    """Return a dict from the name of each array to a tensor that shares its memory."""
    return {name: torch.from_numpy(values) for name, values in arrays.items()}


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
    rate_mistakes: Mapping[str, tuple[tuple[str, ...], Any]] | None = None,
) -> None:
    """Compute the chosen cases of a model's reference, and put them into the file of the reference.

    The tolerances in the file are kept: they are written by hand, one for each precision, from the output of
    `precisions.py`. Progress is printed on standard error.

    Args:
        model: Name of the model.
        cases: Name of each case → its setting.
        forward: The forward pass, a `Forward`.
        meet: The synchronization of gradients, a `Meet`.
        update: The optimizer, an `Update`.
        right: The correct variant.
        mistakes: Known mistake → the topologies in which it can be made (`alone`, `pair` or both), and its variant.
        chosen: Names of cases, or `none`; empty for all.
        heavy: Names of cases that take minutes and much memory: they have a single replica, and no mistakes.
        rate_mistakes: Those that the learning-rate policy `warmup` shows, in place of `mistakes`.
    """
    path = next(iter(cases.values())).model.references
    assert path is not None, f"{model} has no references"
    script = Path(sys.argv[0]).resolve().relative_to(ROOT).as_posix()
    for name in [name for name in chosen or cases if name != "none"]:
        print(f"{model} {name}", file=sys.stderr, flush=True)
        setting = cases[name]
        is_constant = setting.learning_rate_policy == "constant"
        known = {} if name in heavy else mistakes if is_constant else rate_mistakes or {}
        case = make_case(
            setting,
            implementation(setting, forward, meet, update, right),
            {
                mistake: (topologies, implementation(setting, forward, meet, update, variant))
                for mistake, (topologies, variant) in known.items()
            },
            has_pair=name not in heavy,
            on_progress=lambda text: print(f"  {text}", file=sys.stderr, flush=True),
        )
        write_reference(path, model, {name: case}, source=f"{script}, float64, torch {torch.__version__}")
