"""The reference of `inception-v3`, from the page of the model: functions and plain arithmetic, no module, no table.

`scripts/references/trajectory.py` says how to run `plugins/dlperf-models-2017/scripts/inception_v3.py [small …]`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from dlperf_models_2017.inception_v3 import InceptionV3
from torch.nn import functional

sys.path.append(str(Path(__file__).resolve().parents[3] / "scripts" / "references"))

import resnet50
import trajectory
from resnet50 import meet, update
from trajectory import Setting, Tensors


@dataclass(frozen=True)
class Variant(resnet50.Variant):
    """Variant of the computation. The defaults are correct; any other value is a mistake or a narrower format."""

    epsilon: float = 1e-3
    momentum_of_means: float = 0.001
    smoothing: bool = False
    counts_padding: bool = False
    average_last: bool = False
    exchanged: bool = False


RIGHT = Variant()
ALONE = ("alone",)
"""Mistakes of one replica are computed for one replica only: two take twice the time, and add nothing."""
MISTAKES: dict[str, tuple[tuple[str, ...], Variant]] = {
    "average pools that count their padding": (ALONE, replace(RIGHT, counts_padding=True)),
    "an average pool in the last module, as in Keras": (ALONE, replace(RIGHT, average_last=True)),
    "1×3 and 3×1 convolutions of the last modules joined in the other order": (
        ALONE,
        replace(RIGHT, exchanged=True),
    ),
    "batch norm epsilon 1e-5": (ALONE, replace(RIGHT, epsilon=1e-5)),
    "batch norm moves its running statistics by 0.1 of the new ones": (
        ALONE,
        replace(RIGHT, momentum_of_means=0.1),
    ),
    "batch norm in evaluation mode": (ALONE, replace(RIGHT, evaluation=True)),
    "label smoothing 0.1": (ALONE, replace(RIGHT, smoothing=True)),
    "the loss summed over the batch": (ALONE, replace(RIGHT, summed_loss=True)),
    "weight decay on shifts and biases": (ALONE, replace(RIGHT, decay="all")),
    "no weight decay": (ALONE, replace(RIGHT, decay="none")),
    "momentum 0.875 whatever is asked for": (ALONE, replace(RIGHT, momentum=0.875)),
    "no momentum": (ALONE, replace(RIGHT, momentum=0.0)),
    "Nesterov momentum": (ALONE, replace(RIGHT, nesterov=True)),
    "momentum with dampening": (ALONE, replace(RIGHT, dampened=True)),
    "gradients summed over the replicas instead of averaged": (("pair",), replace(RIGHT, meet="sum")),
    "every replica updates with the first replica's gradients": (("pair",), replace(RIGHT, meet="first")),
    "batch norm synchronized over the replicas": (("pair",), replace(RIGHT, synchronized=True)),
}
RATE_MISTAKES = {
    name: (ALONE, replace(RIGHT, rates=variant.rates, rate_inside=variant.rate_inside))
    for name, (_, variant) in resnet50.RATE_MISTAKES.items()
}
# The last modules have 2 × 2 positions. With a first shift of 0 the network is chaotic: changes of the weights that
# are as small as rounding to float32 (6e-8) move the loss of the fourth step by 6 % (2 images, rate 1e-3). A rate
# at which they move it by less than 1e-4 gives updates that float32 cannot represent. A ReLU that rounding flips
# moves the first layers' updates by up to 3e-3.
SMALL = {
    "image_size": 107,
    "num_classes": 100,
    "first_shift": 1.0,
    "learning_rate": 0.0003,
    "weight_decay": 0.1,
}
CASES = {
    "small": Setting(InceptionV3(), SMALL, 4, noise_floor=5e-4),
    "auxiliary": Setting(
        InceptionV3(),
        {"auxiliary": True, "first_shift": 1.0, "learning_rate": 0.0003},
        2,
        noise_floor=5e-4,
    ),
    # The rate differs in the first three steps.
    "warmup": Setting(
        InceptionV3(),
        {**SMALL, "warmup_steps": 3},
        4,
        noise_floor=5e-4,
        learning_rate_policy="warmup",
    ),
}
AUXILIARY_WEIGHT = 0.4


class Network:
    """The forward pass of Inception v3 with given parameters, for all replicas at once.

    Each method takes and returns tensors of activations (replicas, B, C, H, W), unless it says otherwise. `at` and
    `name` are the name of a layer, branch or module in the manifest, such as `mixed.8.1.2`.

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

    def norm(self, name: str, x: torch.Tensor) -> torch.Tensor:
        """Return batch norm without gamma of x, (replicas, B, C, H, W), in the same shape.

        Store the running means in `means`. `name` is the layer's name in the manifest. Each replica has its own
        statistics, unless the variant's `synchronized` is True.
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
        shift = self.p[f"{name}.bias"][:, None, None]
        return self.v.stored((x - mean) / (variance + self.v.epsilon).sqrt() + shift)

    def layer(self, at: str, x: torch.Tensor, stride: int = 1, padded: bool = True) -> torch.Tensor:
        """Return the output of a layer for x: convolution, batch norm and ReLU.

        Activations are (replicas, B, C, H, W). `at` is the layer's name in the manifest. `stride` is the step of the
        kernel in both directions, in pixels. With `padded`, zeros pad each side by half the kernel's size, rounded
        down; otherwise there is no padding.
        """
        weight = self.p[f"{at}.conv.weight"]
        pad = [side // 2 for side in weight.shape[2:]] if padded else [0, 0]
        y = self.v.product(
            lambda a, b: functional.conv2d(a, b, stride=stride, padding=pad), x.flatten(0, 1), weight
        )
        return self.norm(f"{at}.norm", y.unflatten(0, x.shape[:2])).relu()

    def chain(self, at: str, x: torch.Tensor, *layers: int) -> torch.Tensor:
        """Return the output of several layers of a branch, one after the other, each with stride 1, for the input x.

        Activations are (replicas, B, C, H, W). `at` is the name of the branch in the manifest, such as `mixed.8.1`.
        `layers` are the numbers of the branch's layers to apply: the name of its layer 2 is `mixed.8.1.2`.
        """
        for number in layers:
            x = self.layer(f"{at}.{number}", x)
        return x

    def reduced(self, at: str, x: torch.Tensor) -> torch.Tensor:
        """Return the output of the layer `at`, a name in the manifest, for x with stride 2 and without padding.

        Activations are (replicas, B, C, H, W).
        """
        return self.layer(at, x, 2, False)

    def average(self, x: torch.Tensor) -> torch.Tensor:
        """Return the mean over the 3×3 positions around each position of x, (replicas, B, C, H, W), in the same shape.

        Padding does not count, unless the variant's `counts_padding` is True.
        """
        counted = functional.avg_pool2d(x.flatten(0, 1), 3, 1, 1, count_include_pad=self.v.counts_padding)
        return self.v.stored(counted).unflatten(0, x.shape[:2])

    def maximum(self, x: torch.Tensor, stride: int) -> torch.Tensor:
        """Return the maximum of x, (replicas, B, C, H, W), over windows of 3×3 positions.

        `stride` is the step of the windows: 1, which pads each side by one and keeps the shape, or 2, without padding.
        """
        return functional.max_pool2d(x.flatten(0, 1), 3, stride, 2 - stride).unflatten(0, x.shape[:2])

    def module_a(self, at: str, x: torch.Tensor) -> torch.Tensor:
        """Return the output of one of the first three modules for x, in the height and width of x.

        Activations are (replicas, B, C, H, W). `at` is the module's name in the manifest, such as `mixed.0`.
        """
        return joined(
            self.chain(f"{at}.0", x, 0),
            self.chain(f"{at}.1", x, 0, 1),
            self.chain(f"{at}.2", x, 0, 1, 2),
            self.chain(f"{at}.3", self.average(x), 1),
        )

    def module_b(self, at: str, x: torch.Tensor) -> torch.Tensor:
        """Return the output of the fourth module for x, in about half the height and width of x.

        Activations are (replicas, B, C, H, W). `at` is the module's name in the manifest, `mixed.3`.
        """
        return joined(
            self.reduced(f"{at}.0.0", x),
            self.reduced(f"{at}.1.2", self.chain(f"{at}.1", x, 0, 1)),
            self.maximum(x, 2),
        )

    def module_c(self, at: str, x: torch.Tensor) -> torch.Tensor:
        """Return the output of one of the modules five to eight for x, in the height and width of x.

        Activations are (replicas, B, C, H, W). `at` is the module's name in the manifest, such as `mixed.4`.
        """
        return joined(
            self.chain(f"{at}.0", x, 0),
            self.chain(f"{at}.1", x, 0, 1, 2),
            self.chain(f"{at}.2", x, 0, 1, 2, 3, 4),
            self.chain(f"{at}.3", self.average(x), 1),
        )

    def module_d(self, at: str, x: torch.Tensor) -> torch.Tensor:
        """Return the output of the ninth module for x, in about half the height and width of x.

        Activations are (replicas, B, C, H, W). `at` is the module's name in the manifest, `mixed.8`.
        """
        return joined(
            self.reduced(f"{at}.0.1", self.chain(f"{at}.0", x, 0)),
            self.reduced(f"{at}.1.3", self.chain(f"{at}.1", x, 0, 1, 2)),
            self.maximum(x, 2),
        )

    def module_e(self, at: str, x: torch.Tensor, pooled: torch.Tensor) -> torch.Tensor:
        """Return the output of one of the last two modules for x, in the height and width of x.

        Activations are (replicas, B, C, H, W). `at` is the module's name in the manifest, such as `mixed.9`. `pooled`
        is x after the pool of the module's last branch, in the shape of x.
        """
        return joined(
            self.chain(f"{at}.0", x, 0),
            *self.split(f"{at}.1.1", self.chain(f"{at}.1", x, 0)),
            *self.split(f"{at}.2.2", self.chain(f"{at}.2", x, 0, 1)),
            self.chain(f"{at}.3", pooled, 1),
        )

    def split(self, at: str, x: torch.Tensor) -> list[torch.Tensor]:
        """Return a list of the outputs of two parallel layers for the same input x, (replicas, B, C, H, W).

        Their names in the manifest are `at` with `.0` and `.1` appended; the outputs are in this order. If the
        variant's `exchanged` is True, the order is reversed.
        """
        parts = [self.chain(at, x, number) for number in (0, 1)]
        return parts[::-1] if self.v.exchanged else parts

    def linear(self, name: str, x: torch.Tensor) -> torch.Tensor:
        """Return the output of the linear layer `name` for x: (replicas, B, features) → (replicas, B, classes)."""
        product = self.v.product(lambda a, b: a @ b.T, x.flatten(0, 1), self.p[f"{name}.weight"])
        return self.v.stored(product + self.p[f"{name}.bias"]).unflatten(0, x.shape[:2])

    def logits(self, x: torch.Tensor) -> list[torch.Tensor]:
        """Return the logits of images, (replicas, B, 3, H, W): a list of a tensor (replicas, B, classes) per head.

        The main head is the first. The auxiliary head follows if its parameters are given.
        """
        x = self.reduced("stem.0", x)
        x = self.layer("stem.1", x, padded=False)
        x = self.maximum(self.layer("stem.2", x), 2)
        x = self.layer("stem.5", self.layer("stem.4", x), padded=False)
        x = self.maximum(x, 2)
        for number in (0, 1, 2):
            x = self.module_a(f"mixed.{number}", x)
        x = self.module_b("mixed.3", x)
        for number in (4, 5, 6, 7):
            x = self.module_c(f"mixed.{number}", x)
        auxiliary_input = x
        x = self.module_d("mixed.8", x)
        x = self.module_e("mixed.9", x, self.average(x))
        x = self.module_e("mixed.10", x, self.average(x) if self.v.average_last else self.maximum(x, 1))
        heads = [self.linear("fc", self.v.stored(x.mean((3, 4))))]
        if "auxiliary_fc.weight" in self.p:
            pooled = functional.avg_pool2d(auxiliary_input.flatten(0, 1), 5, 3)
            y = self.layer("auxiliary.0", self.v.stored(pooled).unflatten(0, x.shape[:2]))
            heads.append(self.linear("auxiliary_fc", self.layer("auxiliary.1", y, padded=False).flatten(2)))
        return heads


def joined(*branches: torch.Tensor) -> torch.Tensor:
    """Return the outputs of branches, (replicas, B, C, H, W), concatenated along the channels."""
    return torch.cat(branches, 2)


def forward(
    p: Tensors, batches: list[Tensors], setting: Setting, v: Variant
) -> list[tuple[torch.Tensor, Tensors]]:
    """Return for each replica its loss, a scalar, and its running means after the step, as name → tensor.

    The loss is that of the main head plus 0.4 × that of the auxiliary head, if there is one.

    Args:
        p: Name in the manifest → parameter.
        batches: For each replica, name of the input → tensor; all of equal size.
        setting: Not used.
        v: Variant of the computation.
    """
    network = Network(p, v, len(batches))
    heads = network.logits(torch.stack([batch["image"] for batch in batches]))
    results = []
    for replica, (batch, means) in enumerate(zip(batches, network.means, strict=True)):
        own, *others = (resnet50.loss(logits[replica], batch["label"], v) for logits in heads)
        results.append((own + sum(AUXILIARY_WEIGHT * loss for loss in others), means))
    return results


if __name__ == "__main__":
    trajectory.main(
        "inception-v3",
        CASES,
        forward,
        meet,
        update,
        RIGHT,
        MISTAKES,
        sys.argv[1:],
        heavy=("auxiliary",),
        rate_mistakes=RATE_MISTAKES,
    )
