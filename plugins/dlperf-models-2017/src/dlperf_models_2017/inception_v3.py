"""Inception v3 for image classification, as tf_cnn_benchmarks has it.

`dlperf_models_2017.worker.inception_v3` has the layers as tables. What a plugin computes:

- Every convolution has no bias, and is followed by batch norm and ReLU. It is padded by half its kernel on all sides,
  or not at all.
- The stem: 3×3 / 2 unpadded to 32, 3×3 unpadded to 32, 3×3 to 64, max-pool 3×3 / 2 unpadded, 1×1 to 80, 3×3 unpadded to
  192, the same max-pool.
- Eleven modules, whose branches are concatenated along the channels in the order of the table. Average pools inside
  modules are 3×3 / 1, padded by one on all sides, and divide by the number of positions inside the image. The last
  module has a max-pool in their place.
- The mean over all positions, then the linear layer `fc`.
- With `auxiliary`, after the eighth module: an average pool 5×5 / 3 unpadded, 1×1 to 128, 5×5 unpadded to 768 (both
  with batch norm and ReLU), then the linear layer `auxiliary_fc`. The pool must leave 5×5 positions.
- Batch norm has a shift (`norm.bias`) and no gamma. It has epsilon 1e-3, divides by the biased variance, and moves its
  running statistics by 0.001 of the new ones. The statistics are those of the micro-batch of one replica; replicas
  never share them.
- The loss is the cross entropy with label smoothing, as for `resnet50`, plus 0.4 × that of the auxiliary head.
- The optimizer is that of `resnet50`: SGD with momentum, with weight decay where the manifest says `decay`.

Sources:

- C. Szegedy, V. Vanhoucke, S. Ioffe, J. Shlens, Z. Wojna: Rethinking the Inception Architecture for Computer Vision,
  CVPR 2016.
- tf_cnn_benchmarks, models/inception_model.py, `Inceptionv3Model` (the tables, the auxiliary head, no dropout, rate
  0.005), convnet_builder.py (batch norm without gamma, epsilon 1e-3, decay 0.999), benchmark_cnn.py (momentum 0.9,
  weight decay 4e-5, 0.4 × the auxiliary loss).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from attrs import frozen

from dlperf_models_2017.worker.inception_v3 import (
    AUXILIARY_FEATURES,
    FEATURES,
    SizedConvolution,
    list_convolutions,
)
from dlperf_sdk.errors import SpecError
from dlperf_sdk.interfaces.model import Input, Model, Optimizer, Parameter, Term
from dlperf_sdk.spec.fields import check_boolean, number, optional, whole_number, workload


@frozen
class InceptionV3Options:
    """The options of `inception-v3`.

    Raises:
        SpecError: An option has an impossible value.
    """

    image_size: int = workload(
        "Height and width of an image, in pixels.", 299, validator=whole_number(75, 4096)
    )
    num_classes: int = workload("Number of classes.", 1000, validator=whole_number(2, 1_000_000))
    auxiliary: bool = workload("Train the auxiliary head as well.", False, validator=check_boolean)
    label_smoothing: float = workload(
        "Share of the target that is spread over all classes.", 0.0, validator=number(upper=1)
    )
    first_shift: float = workload(
        "First shift of every batch norm. Above 0, ReLU cuts off fewer values, and rounding errors grow slowly.",
        0.0,
        validator=number(),
    )
    learning_rate: float | None = workload(
        "Instead of the recipe's rate, constant or after the warm-up.", None, validator=optional(number())
    )
    warmup_steps: int = workload(
        "Steps over which the learning-rate policy `warmup` raises the rate; tf_cnn_benchmarks has no warm-up.",
        10_000,
        validator=whole_number(1, 1_000_000_000),
    )
    momentum: float = workload("Momentum of SGD.", 0.9, validator=number(upper=1))
    weight_decay: float = workload(
        "L2 weight decay; batch norm and biases have none.", 4e-5, validator=number()
    )

    def __attrs_post_init__(self) -> None:
        """Check that the auxiliary head fits the image."""
        sizes = {sized.name: sized.size for sized in self.convolutions}
        if sizes.get("auxiliary.1", 1) != 1:
            raise SpecError(
                f"auxiliary is true and image_size is {self.image_size}; the auxiliary head takes images of 299 to "
                "346 pixels: choose such a size, or leave auxiliary at false."
            )

    @property
    def convolutions(self) -> tuple[SizedConvolution, ...]:
        """The network's convolutions in the order of the manifest; those of the auxiliary head, if any, are the last.

        Their sizes are those for `image_size`.
        """
        return tuple(list_convolutions(self.image_size, self.auxiliary))


class InceptionV3(Model):
    """Inception v3: 23,817,352 parameters, 34.24 GFLOP per training image (299 px, 1000 classes, no auxiliary head)."""

    name = "inception-v3"
    Options = InceptionV3Options
    has_images = True
    unit = "img/s"
    trainers: ClassVar[Mapping[str, str]] = {
        "torch": "dlperf_models_2017.worker.inception_v3_torch:InceptionV3Trainer",
        "tensorflow": "dlperf_models_2017.worker.inception_v3_tensorflow:InceptionV3Trainer",
        "tensorflow1": "dlperf_models_2017.worker.inception_v3_tensorflow1:InceptionV3Trainer",
    }
    references = Path(__file__).with_name("references") / "inception_v3.json"

    def parameters(self, options: InceptionV3Options) -> tuple[Parameter, ...]:
        """Return the manifest for `options`, in the order of the forward pass, with the linear layers last.

        Weight decay applies to convolutions and the weights of linear layers only.
        """
        manifest = []
        for name, convolution, inputs, _ in options.convolutions:
            shape = (convolution.outputs, inputs, convolution.height, convolution.width)
            std = math.sqrt(2 / math.prod(shape[1:]))
            manifest += [
                Parameter(f"{name}.conv.weight", shape, {"kind": "normal", "std": std}),
                Parameter(
                    f"{name}.norm.bias",
                    shape[:1],
                    {"kind": "constant", "value": options.first_shift},
                    decay=False,
                ),
            ]
        for name, features in _head_features(options).items():
            manifest += [
                Parameter(f"{name}.weight", (options.num_classes, features), {"kind": "normal", "std": 0.01}),
                Parameter(
                    f"{name}.bias", (options.num_classes,), {"kind": "constant", "value": 0.0}, decay=False
                ),
            ]
        return tuple(manifest)

    def inputs(self, options: InceptionV3Options) -> tuple[Input, ...]:
        """Return the two inputs: `image`, (3, height, width) float32, and `label`, the index of the class, int64.

        Images have mean 0 and standard deviation 1. `options` gives the image size and the number of classes.
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

    def flops(self, options: InceptionV3Options) -> tuple[Term, ...]:
        """Return one term per convolution, in the order of the forward pass, and then one per linear layer.

        The term of stem.0 has 2 passes, since images need no gradient; all others have 3. `options` gives the image
        size, the number of classes and the heads.
        """
        terms = []
        for name, (outputs, height, width, *_), inputs, size in options.convolutions:
            terms.append(
                Term(
                    f"{name}: {inputs}×{height}×{width}→{outputs} at {size}×{size}",
                    inputs * height * width * outputs * size**2,
                    passes=2 if name == "stem.0" else 3,
                )
            )
        for name, features in _head_features(options).items():
            terms.append(Term(f"{name}: {features}→{options.num_classes}", features * options.num_classes))
        return tuple(terms)

    def optimizer(self, options: InceptionV3Options, global_batch_size: int) -> Optimizer:
        """Return SGD with momentum, whose learning rate is the option `learning_rate`, or 0.005 if that is None.

        The rate does not depend on the batch size: `global_batch_size` is not used. `options` also has the momentum and
        the weight decay.
        """
        rate = 0.005 if options.learning_rate is None else options.learning_rate
        return Optimizer(
            kind="sgd",
            numbers={
                "learning_rate": rate,
                "warmup_learning_rate": rate,
                "warmup_steps": options.warmup_steps,
                "momentum": options.momentum,
                "weight_decay": options.weight_decay,
                "clip_norm": None,
            },
            source="tf_cnn_benchmarks: models/inception_model.py (rate), benchmark_cnn.py (momentum, weight decay)",
        )


def _head_features(options: InceptionV3Options) -> dict[str, int]:
    """Return the number of input features of each linear layer."""
    return {"fc": FEATURES, **({"auxiliary_fc": AUXILIARY_FEATURES} if options.auxiliary else {})}
