"""ResNet-50 v1.5 for image classification.

NOTE on the variant. This is v1.5: where a bottleneck halves the resolution, its 3×3 convolution has the
stride (in the original, v1, the first 1×1 has it). Convolutions have no bias. What a plugin computes:

- conv1 7×7 / 2, 64 channels, padding 3 on all sides; batch norm; ReLU; max-pool 3×3 / 2, padding 1 on all
  sides.
- Four stages of 3, 4, 6 and 3 bottlenecks of width 64, 128, 256 and 512: conv1 1×1, conv2 3×3 (padding 1 on
  all sides, stride 2 in the first block of stages 2 to 4), conv3 1×1 to 4 × the width; batch norm after
  each, ReLU after the first two; then the shortcut is added, then ReLU. The first block of a stage has a 1×1
  convolution with batch norm in its shortcut (`downsample`), with the stride of its conv2.
- The mean over all positions, then the linear layer `fc`.
- Batch norm has epsilon 1e-5, divides by the biased variance (Σ (x - mean)² / n), and moves its running
  statistics by 0.1 of the new ones. The statistics are those of the micro-batch of one replica; replicas never
  share them. The running variance may be moved by the unbiased one: training does not read it. In the manifest,
  batch norms are the layers whose `weight` has one dimension.
- The loss, for label y of K classes and smoothing ε, is the mean over the batch of
  (1 - ε) · (-log p[y]) + ε · mean over k of (-log p[k]).
- The optimizer, per parameter, with weight decay w where the manifest says `decay`:
  g ← g + w·θ;  v ← momentum·v + g;  θ ← θ - rate·v, with v = 0 at first.

Sources:

- K. He, X. Zhang, S. Ren, J. Sun: Deep Residual Learning for Image Recognition, CVPR 2016, table 1 (the
  network).
- K. He et al.: Delving Deep into Rectifiers, ICCV 2015, section 2.2 (normal weights, here by fan-out).
- P. Goyal et al.: Accurate, Large Minibatch SGD, 2017: section 5.1 (the last gamma of each residual branch is
  zero; `fc` normal with 0.01; no decay on batch norm), section 2 (the rate grows with the batch, and needs a
  warm-up).
- NVIDIA DeepLearningExamples, ResNet50 v1.5, README, "Optimizer": momentum 0.875, weight decay 1/32768 but
  not on batch norm, label smoothing 0.1, rate 0.256 per 256 images, linear warm-up (8 epochs in its launch
  scripts).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from attrs import frozen

from dlperf_sdk.interfaces.model import Input, Model, Optimizer, Parameter, Term
from dlperf_sdk.spec.fields import number, optional, whole_number, workload
from dlperf_sdk.worker.architectures import EXPANSION, STAGES

IMAGENET_IMAGES = 1_281_167
"""Training images of ILSVRC 2012."""
WARMUP_EPOCHS = 8


@frozen
class ResNet50Options:
    """The options of `resnet50`.

    Raises:
        SpecError: An option has an impossible value.
    """

    image_size: int = workload(
        "Height and width of an image, in pixels.", 224, validator=whole_number(32, 4096)
    )
    num_classes: int = workload("Number of classes.", 1000, validator=whole_number(2, 1_000_000))
    label_smoothing: float = workload(
        "Share of the target that is spread over all classes.", 0.1, validator=number(upper=1)
    )
    last_gamma: float = workload(
        "First gamma of the last batch norm in each residual branch. Above 0, every convolution has a "
        "gradient from the first step on, but rounding errors grow fast.",
        0.0,
        validator=number(),
    )
    learning_rate: float | None = workload(
        "Instead of the recipe's rate, constant or after the warm-up.", None, validator=optional(number())
    )
    warmup_steps: int | None = workload(
        "Steps over which the learning-rate policy `warmup` raises the rate, instead of the recipe's eight epochs.",
        None,
        validator=optional(whole_number(1, 1_000_000_000)),
    )
    momentum: float = workload("Momentum of SGD.", 0.875, validator=number(upper=1))
    weight_decay: float = workload(
        "L2 weight decay; batch norm and biases have none.", 1 / 32768, validator=number()
    )


class _Layer(NamedTuple):
    """A convolution and the batch norm after it."""

    name: str
    norm: str
    inputs: int
    outputs: int
    kernel: int
    size: int
    """Height and width of its output."""
    gamma: float = 1.0


def _layers(options: ResNet50Options) -> Iterator[_Layer]:
    """Yield all convolutions, a block's shortcut after its branch."""
    size = _halve(options.image_size)
    yield _Layer("conv1", "bn1", 3, 64, 7, size)
    channels, size = 64, _halve(size)  # the max-pool
    for stage, (width, blocks) in enumerate(STAGES, start=1):
        for block in range(blocks):
            block_name = f"layer{stage}.{block}"
            inner = _halve(size) if stage > 1 and block == 0 else size
            outputs = EXPANSION * width
            yield _Layer(f"{block_name}.conv1", f"{block_name}.bn1", channels, width, 1, size)
            yield _Layer(f"{block_name}.conv2", f"{block_name}.bn2", width, width, 3, inner)
            yield _Layer(
                f"{block_name}.conv3", f"{block_name}.bn3", width, outputs, 1, inner, options.last_gamma
            )
            if block == 0:
                yield _Layer(
                    f"{block_name}.downsample.0", f"{block_name}.downsample.1", channels, outputs, 1, inner
                )
            channels, size = outputs, inner


def _halve(size: int) -> int:
    """Return the output side length of a layer with stride 2, an odd kernel k and padding (k - 1) / 2."""
    return (size + 1) // 2


class ResNet50(Model):
    """ResNet-50 v1.5: 25,557,032 parameters, 24.30 GFLOP per training image (224 px, 1000 classes)."""

    name = "resnet50"
    Options = ResNet50Options
    has_images = True
    unit = "img/s"
    references = Path(__file__).with_name("references") / "resnet50.json"

    def parameters(self, options: ResNet50Options) -> tuple[Parameter, ...]:
        """Return the trainable parameters, in the order of the forward pass.

        For each convolution, these are its weight, and the weight and bias of its batch norm; finally, the weight and
        bias of the linear layer `fc`. Weight decay applies only to the weights of convolutions and of `fc`.
        The names are torchvision's. `options` holds the model's options.
        """
        manifest = []
        for layer in _layers(options):
            shape = (layer.outputs, layer.inputs, layer.kernel, layer.kernel)
            std = math.sqrt(2 / (layer.outputs * layer.kernel**2))
            manifest += [
                Parameter(f"{layer.name}.weight", shape, {"kind": "normal", "std": std}),
                Parameter(
                    f"{layer.norm}.weight", shape[:1], {"kind": "constant", "value": layer.gamma}, decay=False
                ),
                Parameter(f"{layer.norm}.bias", shape[:1], {"kind": "constant", "value": 0.0}, decay=False),
            ]
        classes, features = options.num_classes, EXPANSION * STAGES[-1][0]
        return (
            *manifest,
            Parameter("fc.weight", (classes, features), {"kind": "normal", "std": 0.01}),
            Parameter("fc.bias", (classes,), {"kind": "constant", "value": 0.0}, decay=False),
        )

    def inputs(self, options: ResNet50Options) -> tuple[Input, ...]:
        """Return `image`, (3, height, width), normalized to mean 0 and standard deviation 1; and the scalar `label`.

        A label is the number of a class, counted from 0.

        `options` holds the model's options.
        """
        return (
            Input("image", (3, options.image_size, options.image_size), "float32", {"kind": "normal"}),
            Input(
                "label",
                (),
                "int64",
                {"kind": "integers", "low": 0, "high": options.num_classes},
                is_label=True,
            ),
        )

    def flops(self, options: ResNet50Options) -> tuple[Term, ...]:
        """Return the FLOPs per image and training step: a term per convolution, and one for the linear layer `fc`.

        The term of `conv1` counts two passes instead of three, because images need no gradient.
        `options` holds the model's options.
        """
        terms = [
            Term(
                f"{layer.name}: {layer.inputs}×{layer.kernel}×{layer.kernel}→{layer.outputs}"
                f" at {layer.size}×{layer.size}",
                layer.inputs * layer.kernel**2 * layer.outputs * layer.size**2,
                passes=2 if layer.name == "conv1" else 3,
            )
            for layer in _layers(options)
        ]
        features = EXPANSION * STAGES[-1][0]
        return (*terms, Term(f"fc: {features}→{options.num_classes}", features * options.num_classes))

    def optimizer(self, options: ResNet50Options, global_batch_size: int) -> Optimizer:
        """Return SGD with momentum, with a rate for each learning-rate policy, `constant` and `warmup`.

        If the option `learning_rate` is set, it is the rate of both policies. Otherwise, for a global batch of B
        samples, the policy `warmup` ends at the rate 0.256 · B / 256. The policy `constant` has the same rate up to
        B = 256, and 0.256 above. Larger rates would need a warm-up of epochs, which is far longer than a measurement.
        `options` holds the model's options; `global_batch_size` is the number of
        samples per step over all replicas.
        """
        full = 0.256 * global_batch_size / 256
        scaled_rate = 0.256 * min(global_batch_size, 256) / 256
        return Optimizer(
            kind="sgd",
            numbers={
                "learning_rate": scaled_rate if options.learning_rate is None else options.learning_rate,
                "warmup_learning_rate": full if options.learning_rate is None else options.learning_rate,
                "warmup_steps": options.warmup_steps
                or max(1, round(WARMUP_EPOCHS * IMAGENET_IMAGES / global_batch_size)),
                "momentum": options.momentum,
                "weight_decay": options.weight_decay,
                "clip_norm": None,
            },
            source="NVIDIA DeepLearningExamples, ResNet50 v1.5; Goyal et al. 2017 (linear scaling)",
        )
