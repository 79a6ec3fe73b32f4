"""How far each precision takes the reference implementation from float64: where the tolerances' bounds come from.

    PYTHONPATH=src:scripts/references python scripts/references/precisions.py bert_base small

Everything is computed in float32, and the operands of every convolution and matrix product are rounded to the
significand of the precision, forwards and backwards; for the two autocast precisions their results as well. So this is
what the formats must do, whatever computes them: tf32 exists on GPUs only, and is emulated here.
"""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import replace
from typing import Any

import torch
import trajectory
from trajectory import Product

from dlperf_sdk.spec.precision import PRECISIONS


def rounded(x: torch.Tensor, bits: int) -> torch.Tensor:
    """A float32 tensor to so many stored bits of significand, ties to even; the exponent keeps its range."""
    drop = 23 - bits
    if not drop:
        return x
    whole = x.contiguous().view(torch.int32)
    half = (1 << (drop - 1)) - 1 + ((whole >> drop) & 1)
    return ((whole + half) & ~((1 << drop) - 1)).view(torch.float32)


class Operand(torch.autograd.Function):
    """Rounded on its way in; its gradient comes out as it is."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor, bits: int) -> torch.Tensor:
        return rounded(x, bits)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradient, None


class Outcome(torch.autograd.Function):
    """A product's result; its gradient is an operand of the backward pass, and rounded."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor, bits: int, narrow: bool) -> torch.Tensor:
        context.bits = bits
        return rounded(x, bits) if narrow else x.clone()

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return rounded(gradient, context.bits), None, None


def product_in(bits: int, narrow: bool) -> Product:
    """Products in a narrower format."""

    def product(function: Product, *operands: torch.Tensor) -> torch.Tensor:
        return Outcome.apply(function(*(Operand.apply(one, bits) for one in operands)), bits, narrow)

    return product


def main(model: str, case: str) -> None:
    script = importlib.import_module(model)
    setting = script.CASES[case]
    path = trajectory.PLACE / f"{model}.json"
    right = json.loads(path.read_text(encoding="utf-8"))["cases"][case]["alone"][0]
    for precision in PRECISIONS:
        product = product_in(precision.significand_bits, precision.rounds_products)
        variant = replace(script.RIGHT, product=product)
        found = trajectory.follow(
            setting, [0], script.forward, script.meet, script.update, variant, torch.float32
        )
        apart = [abs(a - b) / b for a, b in zip(found.losses[0], right["losses"], strict=True)]
        prints = {"updates": trajectory.prints(found.updates[0]), "means": trajectory.prints(found.means[0])}
        wholes = {
            kind: whole(ours, right["updates" if kind == "updates" else "running_means"])
            for kind, ours in prints.items()
            if ours
        }
        losses = " ".join(f"{one:.1e}" for one in apart)
        said = ", ".join(f"{kind} as a whole {distance:.1e}" for kind, distance in wholes.items())
        print(f"{model} {case} {precision.name}: losses {losses}; {said}", flush=True)


def whole(ours: dict[str, list[float]], theirs: dict[str, list[float]]) -> float:
    """The relative distance of all arrays, taken as one."""
    squares = sum(
        sum((a - b) ** 2 for a, b in zip(ours[name][1:], right[1:], strict=True)) / 8
        for name, right in theirs.items()
    )
    return (squares / sum(right[0] ** 2 for right in theirs.values())) ** 0.5


if __name__ == "__main__":
    main(*sys.argv[1:])
