"""How far each precision takes the reference implementation from float64: where the tolerances' bounds come from.

`trajectory` says how to run `scripts/references/precisions.py scripts/references/bert_base.py small`.

Everything is computed in float32, and the operands of every convolution and matrix product are rounded to the
significand of the precision, forwards and backwards; for the two autocast precisions their results as well. For pure
precisions the network's weights, what stands between two products, and all gradients are rounded too (to float16 with
its range), under the loss scale; batch norm's parameters and the optimizer are not. So this is what the formats must
do, whatever computes them: tf32 exists on GPUs only, and is emulated here.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import trajectory
from trajectory import Forward, Meet, Product, Setting, Storage, Tensors

from dlperf_sdk.spec.precision import PRECISIONS, Precision
from dlperf_sdk.testing.references import fingerprints, train


def _rounding_of(precision: Precision) -> Storage:
    """How a float32 tensor becomes one of the precision's format."""
    if precision.is_pure and precision.format == "fp16":
        return _in_float16
    return partial(rounded, bits=precision.significand_bits)


def _in_float16(x: torch.Tensor) -> torch.Tensor:
    """A float32 tensor to float16, and back: the range of the exponent is float16's too."""
    return x.half().float()


def rounded(x: torch.Tensor, bits: int) -> torch.Tensor:
    """Return the float32 tensor x rounded to `bits` stored bits of significand, ties to even; the result is float32.

    The exponent keeps its range. With 23 bits, the result is x itself. `bits` is from 0 to 23.
    """
    drop = 23 - bits
    if not drop:
        return x
    whole = x.contiguous().view(torch.int32)
    half = (1 << (drop - 1)) - 1 + ((whole >> drop) & 1)
    return ((whole + half) & ~((1 << drop) - 1)).view(torch.float32)


class Operand(torch.autograd.Function):
    """An operand of a product, which is rounded in the forward pass; its gradient is not."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor, rounding: Storage) -> torch.Tensor:
        """Return x after the function `rounding`."""
        return rounding(x)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Return the gradient unchanged, and None for `rounding`."""
        return gradient, None


class Outcome(torch.autograd.Function):
    """The result of a product, whose gradient is rounded, since it is an operand of the backward pass."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor, rounding: Storage, narrow: bool) -> torch.Tensor:
        """Return x after the function `rounding` if `narrow` is True, else a copy of x."""
        context.rounding = rounding
        return rounding(x) if narrow else x.clone()

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        """Return the gradient after the forward pass's `rounding`, and None for the other arguments."""
        return context.rounding(gradient), None, None


class Scaled(torch.autograd.Function):
    """A loss whose gradients are multiplied by the loss scale."""

    @staticmethod
    def forward(context: Any, loss: torch.Tensor, scale: float) -> torch.Tensor:
        """Return a copy of the loss, which is not scaled."""
        context.scale = scale
        return loss.clone()

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Return the gradient times the forward pass's `scale`, and None for `scale`."""
        return gradient * context.scale, None


def _product_in(rounding: Storage, narrow: bool) -> Product:
    """Products in a narrower format."""

    def product(function: Product, *operands: torch.Tensor) -> torch.Tensor:
        return Outcome.apply(function(*(Operand.apply(one, rounding) for one in operands)), rounding, narrow)

    return product


def _stored_in(rounding: Storage) -> Storage:
    """What stands between two products in a narrower format, and so its gradient."""
    return lambda x: Outcome.apply(x, rounding, True)


def _with_narrow_weights(forward: Forward, stored: Storage, wide: Collection[str], scale: float) -> Forward:
    """The forward pass of float32 master weights, of which the network has all but the `wide` ones in the format."""

    def narrow_forward(
        masters: Tensors, batches: list[Tensors], setting: Setting, variant: Any
    ) -> list[tuple[torch.Tensor, Tensors]]:
        weights = {name: value if name in wide else stored(value) for name, value in masters.items()}
        results = forward(weights, batches, setting, variant)
        return [(Scaled.apply(loss, scale), means) for loss, means in results]

    return narrow_forward


def unscaled(meet: Meet, scale: float) -> Meet:
    """Return a function that divides the replicas' gradients by the loss scale `scale`, and passes them to `meet`.

    The function takes and returns what `meet` does: it returns the gradients that each replica updates with.
    """

    def meet_unscaled(gradients: list[Tensors], variant: Any, setting: Setting) -> Tensors:
        plain = [{name: value / scale for name, value in of_one.items()} for of_one in gradients]
        return meet(plain, variant, setting)

    return meet_unscaled


def main(script_path: str, case: str) -> None:
    """Train one replica in each precision, and print the relative distances of the training from that in float64.

    The distances are those of the losses, the updates and the running means, in one case of a model's script.

    Args:
        script_path: Path of the script, such as `scripts/references/bert_base.py`.
        case: A key of the script's `CASES`.
    """
    sys.path.append(str(Path(script_path).parent))
    script = importlib.import_module(Path(script_path).stem)
    setting = script.CASES[case]
    path, model = setting.model.references, setting.model.name
    assert path is not None, f"{model} has no references"
    right = json.loads(path.read_text(encoding="utf-8"))["cases"][case]["alone"][0]
    norms = {name.removesuffix("running_mean") for name in right["running_means"]}
    wide = {name for name in right["updates"] if name[: name.rindex(".") + 1] in norms}
    for precision in PRECISIONS:
        rounding = _rounding_of(precision)
        variant = replace(script.RIGHT, product=_product_in(rounding, precision.rounds_products))
        forward, meet = script.forward, unscaled(script.meet, precision.loss_scale)
        if precision.is_pure:
            stored = _stored_in(rounding)
            variant = replace(variant, stored=stored)
            forward = _with_narrow_weights(forward, stored, wide, precision.loss_scale)
        implementation = trajectory.implementation(setting, forward, meet, script.update, variant)
        actual = train(setting, [0], implementation, "float32")
        apart = [abs(a - b) / b for a, b in zip(actual.losses[0], right["losses"], strict=True)]
        prints = {
            "updates": fingerprints(actual.updates),
            "means": fingerprints(actual.running_means[0]),
        }
        wholes = {
            kind: whole(ours, right["updates" if kind == "updates" else "running_means"])
            for kind, ours in prints.items()
            if ours
        }
        losses = " ".join(f"{one:.1e}" for one in apart)
        output = ", ".join(f"{kind} as a whole {distance:.1e}" for kind, distance in wholes.items())
        print(f"{model} {case} {precision.name}: losses {losses}; {output}", flush=True)


def whole(ours: dict[str, list[float]], theirs: dict[str, list[float]]) -> float:
    """Return an estimate of ‖a - b‖ / ‖b‖, where a and b are several arrays, each set taken as one vector.

    Args:
        ours: Fingerprints of a: name of the array → its 2-norm, then eight projections.
        theirs: Fingerprints of b, in the same form. Arrays that only a has are ignored.

    Raises:
        KeyError: B has an array that a lacks.
        ZeroDivisionError: All of b is zero.
    """
    squares = sum(
        sum((a - b) ** 2 for a, b in zip(ours[name][1:], right[1:], strict=True)) / 8
        for name, right in theirs.items()
    )
    return (squares / sum(right[0] ** 2 for right in theirs.values())) ** 0.5


if __name__ == "__main__":
    main(*sys.argv[1:])
