"""The reference of `resnet50`, from the page of the model: functions and plain arithmetic, no module, no optimizer.

`trajectory` says how to run `scripts/references/resnet50.py [small gamma full]`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
import trajectory
from torch.nn import functional
from trajectory import Product, Setting, Storage, Tensors, as_is, exact

from dlperf_sdk.models.resnet50 import ResNet50


@dataclass(frozen=True)
class Variant:
    """Variant of the computation. The defaults are correct; any other value is a mistake or a narrower format."""

    stride_first: bool = False
    same_padding: bool = False
    epsilon: float = 1e-5
    momentum_of_means: float = 0.1
    evaluation: bool = False
    synchronized: bool = False
    smoothing: bool = True
    summed_loss: bool = False
    decay: str = "marked"
    """`marked` in the manifest, `all` or `none`."""
    momentum: float | None = None
    nesterov: bool = False
    dampened: bool = False
    rates: str = "scheduled"
    """A word of `trajectory.rate_of`."""
    rate_inside: bool = False
    meet: str = "mean"
    product: Product = exact
    """How a convolution or matrix product is computed: a narrower format can be put here."""
    stored: Storage = as_is
    """How what stands between two products is stored: a narrower format can be put here."""


RIGHT = Variant()
BOTH = ("alone", "pair")
MISTAKES: dict[str, tuple[tuple[str, ...], Variant]] = {
    "the stride in a bottleneck's first 1×1 convolution (v1)": (BOTH, replace(RIGHT, stride_first=True)),
    'asymmetric "same" padding where the stride is 2': (BOTH, replace(RIGHT, same_padding=True)),
    "batch norm epsilon 1e-3": (BOTH, replace(RIGHT, epsilon=1e-3)),
    "batch norm moves its running statistics by 0.9 of the new ones": (
        BOTH,
        replace(RIGHT, momentum_of_means=0.9),
    ),
    "batch norm moves its running statistics by 0.01 of the new ones": (
        BOTH,
        replace(RIGHT, momentum_of_means=0.01),
    ),
    "batch norm in evaluation mode": (BOTH, replace(RIGHT, evaluation=True)),
    "no label smoothing": (BOTH, replace(RIGHT, smoothing=False)),
    "the loss summed over the batch": (BOTH, replace(RIGHT, summed_loss=True)),
    "weight decay on batch norm and biases": (BOTH, replace(RIGHT, decay="all")),
    "no weight decay": (BOTH, replace(RIGHT, decay="none")),
    "momentum 0.9 whatever is asked for": (BOTH, replace(RIGHT, momentum=0.9)),
    "no momentum": (BOTH, replace(RIGHT, momentum=0.0)),
    "Nesterov momentum": (BOTH, replace(RIGHT, nesterov=True)),
    "momentum with dampening": (BOTH, replace(RIGHT, dampened=True)),
    "gradients summed over the replicas instead of averaged": (("pair",), replace(RIGHT, meet="sum")),
    "every replica updates with the first replica's gradients": (("pair",), replace(RIGHT, meet="first")),
    "batch norm synchronized over the replicas": (("pair",), replace(RIGHT, synchronized=True)),
}
RATE_MISTAKES: dict[str, tuple[tuple[str, ...], Variant]] = {
    "the learning rate of the first step at every step": (BOTH, replace(RIGHT, rates="first")),
    "the full learning rate from the first step on": (BOTH, replace(RIGHT, rates="full")),
    "the learning rate inside the momentum: v ← momentum·v + rate·g": (
        BOTH,
        replace(RIGHT, rate_inside=True),
    ),
}
CASES = {
    # A rate and a decay at which float32 keeps to 1e-4, and a missing exemption from decay can be seen.
    "small": Setting(ResNet50(), {"image_size": 64, "learning_rate": 0.01, "weight_decay": 0.01}, 4),
    # A ReLU that rounding flips moves a gradient by per cents: torch's updates are up to 2e-2 from float64 here.
    "gamma": Setting(
        ResNet50(),
        {"image_size": 64, "learning_rate": 0.001, "weight_decay": 0.01, "last_gamma": 0.2},
        4,
        noise_floor=5e-3,
    ),
    "full": Setting(ResNet50(), {"learning_rate": 0.01}, 4),
    # With three steps of warm-up, rounding decides about a ReLU at zero, and moves the last loss by 1.6e-4.
    "warmup": Setting(
        ResNet50(),
        {"image_size": 64, "learning_rate": 0.01, "weight_decay": 0.01, "warmup_steps": 2},
        4,
        learning_rate_policy="warmup",
    ),
}


def padded(x: torch.Tensor, kernel: int, stride: int, value: float, v: Variant) -> torch.Tensor:
    """Return x with its last two axes padded by half the kernel on all sides.

    If `v.same_padding` is True and the stride above 1, the padding is the smallest that gives ⌈size / stride⌉ outputs;
    an odd pixel is added behind.

    Args:
        x: Images (…, H, W) of equal height and width.
        kernel: Height and width of the kernel, in pixels.
        stride: Stride of the kernel.
        value: Value of the padding.
        v: Variant of the computation.
    """
    if not (v.same_padding and stride > 1 and kernel > 1):
        return functional.pad(x, [kernel // 2] * 4, value=value)
    size = x.shape[-1]
    total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    return functional.pad(x, [total // 2, total - total // 2] * 2, value=value)


class Network:
    """The forward pass of ResNet-50 with given parameters, for all replicas at once.

    Args:
        p: Name in the manifest → parameter.
        variant: Variant of the computation.
        replicas: Number of replicas.

    Attributes:
        means: For each replica, name → running mean after the pass.
    """

    def __init__(self, p: Tensors, variant: Variant, replicas: int) -> None:
        self.p, self.v = p, variant
        self.means: list[Tensors] = [{} for _ in range(replicas)]

    def convolution(self, name: str, x: torch.Tensor, stride: int = 1) -> torch.Tensor:
        """Return a convolution of x, (B, C, H, W), with padding and a stride. `name` is its name in the manifest."""
        weight = self.p[f"{name}.weight"]
        x = padded(x, weight.shape[-1], stride, 0.0, self.v)
        return self.v.product(lambda a, b: functional.conv2d(a, b, stride=stride), x, weight)

    def norm(self, name: str, x: torch.Tensor) -> torch.Tensor:
        """Return batch norm of x, (replicas, B, C, H, W), in the shape of x, and store the running means in `means`.

        Each replica has its own statistics, unless the variant's `synchronized` is True. `name` is the layer's name in
        the manifest.
        """
        over = (0, 1, 3, 4) if self.v.synchronized else (1, 3, 4)
        mean = x.mean(over, keepdim=True)
        variance = ((x - mean) ** 2).mean(over, keepdim=True)
        moved = (self.v.momentum_of_means * mean.detach()).expand(x.shape[0], 1, x.shape[2], 1, 1)
        for replica, stored in enumerate(self.means):
            stored[f"{name}.running_mean"] = moved[replica].flatten().clone()
        if self.v.evaluation:
            mean, variance = torch.zeros_like(mean), torch.ones_like(variance)
            for stored in self.means:
                stored[f"{name}.running_mean"] = torch.zeros(x.shape[2], dtype=x.dtype)
        scale, shift = (self.p[f"{name}.{part}"][:, None, None] for part in ("weight", "bias"))
        return self.v.stored((x - mean) / (variance + self.v.epsilon).sqrt() * scale + shift)

    def layer(self, conv: str, norm: str, x: torch.Tensor, stride: int = 1) -> torch.Tensor:
        """Return convolution and then batch norm of x, (replicas, B, C, H, W).

        For the convolution, the replicas are folded into the batch. `conv` and `norm` are the names of the layers in
        the manifest, and `stride` is the convolution's.
        """
        y = self.convolution(conv, x.flatten(0, 1), stride)
        return self.norm(norm, y.unflatten(0, x.shape[:2]))

    def bottleneck(self, at: str, x: torch.Tensor, stride: int) -> torch.Tensor:
        """Return the output of a residual block for x, (replicas, B, C, H, W).

        `at` is the block's name in the manifest, such as `layer1.0`; `stride` is the stride of the block.
        """
        first, second = (stride, 1) if self.v.stride_first else (1, stride)
        y = self.layer(f"{at}.conv1", f"{at}.bn1", x, first).relu()
        y = self.layer(f"{at}.conv2", f"{at}.bn2", y, second).relu()
        y = self.layer(f"{at}.conv3", f"{at}.bn3", y)
        if f"{at}.downsample.0.weight" in self.p:
            x = self.layer(f"{at}.downsample.0", f"{at}.downsample.1", x, stride)
        return self.v.stored(y + x).relu()

    def logits(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits of images: (replicas, B, 3, H, W) → (replicas, B, classes)."""
        y = self.layer("conv1", "bn1", x, 2).relu()
        pooled = functional.max_pool2d(padded(y.flatten(0, 1), 3, 2, -float("inf"), self.v), 3, 2)
        y = pooled.unflatten(0, y.shape[:2])
        for stage, blocks in enumerate((3, 4, 6, 3), start=1):
            for block in range(blocks):
                y = self.bottleneck(f"layer{stage}.{block}", y, 2 if stage > 1 and block == 0 else 1)
        features = self.v.stored(y.mean((3, 4)))
        product = self.v.product(lambda a, b: a @ b.T, features.flatten(0, 1), self.p["fc.weight"])
        return self.v.stored(product + self.p["fc.bias"]).unflatten(0, features.shape[:2])


def forward(
    p: Tensors, batches: list[Tensors], setting: Setting, v: Variant
) -> list[tuple[torch.Tensor, Tensors]]:
    """Return for each replica its loss, a scalar, and its running means after the step, as name → tensor.

    Args:
        p: Name in the manifest → parameter.
        batches: For each replica, name of the input → tensor; all of equal size.
        setting: Not used.
        v: Variant of the computation.
    """
    network = Network(p, v, len(batches))
    logits = network.logits(torch.stack([batch["image"] for batch in batches]))
    return [
        (loss(of_replica, batch["label"], v), means)
        for of_replica, batch, means in zip(logits, batches, network.means, strict=True)
    ]


def loss(logits: torch.Tensor, labels: torch.Tensor, v: Variant) -> torch.Tensor:
    """Return the cross entropy with label smoothing 0.1, the mean over the batch, a scalar.

    Args:
        logits: (B, classes).
        labels: Indices of the classes, (B,).
        v: Variant of the computation.
    """
    negative_log = torch.logsumexp(logits, 1, keepdim=True) - logits
    smoothing = 0.1 if v.smoothing else 0.0
    item = (1 - smoothing) * negative_log.gather(1, labels[:, None])[:, 0] + smoothing * negative_log.mean(1)
    return item.sum() if v.summed_loss else item.mean()


def meet(gradients: list[Tensors], v: Variant, setting: Setting) -> Tensors:
    """Return the gradients that each replica updates with, the means over the replicas: name of the parameter → mean.

    Synchronized batch norm makes no difference here.

    Args:
        gradients: For each replica, of which there is at least one, name of the parameter → gradient.
        v: Variant of the computation.
        setting: Not used.
    """
    if v.meet == "first":
        return gradients[0]
    count = 1 if v.meet == "sum" else len(gradients)
    return {name: sum(of_one[name] for of_one in gradients) / count for name in gradients[0]}


def update(
    p: Tensors,
    g: Tensors,
    state: dict[str, Any],
    step: int,
    setting: Setting,
    numbers: Mapping[str, Any],
    v: Variant,
) -> None:
    """Update parameters with SGD: g ← g + w·θ; v ← momentum·v + g; θ ← θ - rate·v.

    Args:
        p: Name → parameter, changed in place.
        g: Name of the parameter → gradient.
        state: Name of the parameter → its velocity `v`, changed in place; empty at first.
        step: Not used.
        setting: The case.
        numbers: Numbers of the optimizer in this step.
        v: Variant of the computation.
    """
    rate, decay = trajectory.rate_of(setting, numbers, v.rates), numbers["weight_decay"]
    momentum = numbers["momentum"] if v.momentum is None else v.momentum
    for name, marked in setting.decays.items():
        w = decay if (marked and v.decay != "none") or v.decay == "all" else 0.0
        gradient = g[name] + w * p[name]
        before = state.setdefault(name, {"v": torch.zeros_like(p[name])})["v"]
        moving = momentum * before + (1 - momentum if v.dampened else rate if v.rate_inside else 1) * gradient
        state[name]["v"] = moving
        step_by = gradient + momentum * moving if v.nesterov else moving
        p[name] -= step_by if v.rate_inside else rate * step_by


if __name__ == "__main__":
    trajectory.main(
        "resnet50",
        CASES,
        forward,
        meet,
        update,
        RIGHT,
        MISTAKES,
        sys.argv[1:],
        heavy=("full",),
        rate_mistakes=RATE_MISTAKES,
    )
