"""ResNet-50 v1 for image classification: the network of the original paper.

NOTE on the variant. `resnet50`, which is v1.5, has the stride of a bottleneck in its 3×3 convolution. Here the first
1×1 convolution (conv1) of the first block of stages 2 to 4 has the stride 2, and conv2 has the stride 1. The shortcut
has the stride of the block in both. A block thus computes conv1 on a fourth of the positions and reads only these.
Everything else is as in `dlperf_sdk.models.resnet50`: names and shapes of the parameters, padding, batch norm, the loss
and the optimizer's formula. tf_cnn_benchmarks calls this network `resnet50`, and v1.5 `resnet50_v1.5`.

The defaults differ from v1.5's recipe: no label smoothing, momentum 0.9, weight decay 1e-4, and a rate of 0.1 per 256
images.

Sources:

- K. He, X. Zhang, S. Ren, J. Sun: Deep Residual Learning for Image Recognition, CVPR 2016: table 1 (the network),
  section 3.4 (rate 0.1 for 256 images, momentum 0.9, weight decay 1e-4).
- tf_cnn_benchmarks, models/resnet_model.py, `bottleneck_block_v1` (the stride in the first 1×1).
- P. Goyal et al.: Accurate, Large Minibatch SGD, 2017: zero gamma, and no decay on batch norm.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import attrs
from attrs import frozen

from dlperf_sdk.interfaces.model import Optimizer, Term
from dlperf_sdk.models.resnet50 import ResNet50, ResNet50Options
from dlperf_sdk.spec.fields import number, workload


@frozen
class ResNet50V1Options(ResNet50Options):
    """The options of `resnet50-v1`: those of `resnet50` with the original's defaults.

    Raises:
        SpecError: An option has an impossible value.
    """

    label_smoothing: float = workload(
        "Share of the target that is spread over all classes.", 0.0, validator=number(upper=1)
    )
    momentum: float = workload("Momentum of SGD.", 0.9, validator=number(upper=1))
    weight_decay: float = workload(
        "L2 weight decay; batch norm and biases have none.", 1e-4, validator=number()
    )


class ResNet50V1(ResNet50):
    """ResNet-50 v1: 25,557,032 parameters, 22.91 GFLOP per training image (224 px, 1000 classes)."""

    name = "resnet50-v1"
    Options: ClassVar[type[Any]] = ResNet50V1Options
    trainers: ClassVar[Mapping[str, str]] = {
        "torch": "dlperf_models_2017.worker.resnet50_v1_torch:ResNet50V1Trainer",
        "tensorflow": "dlperf_models_2017.worker.resnet50_v1_tensorflow:ResNet50V1Trainer",
        "tensorflow1": "dlperf_models_2017.worker.resnet50_v1_tensorflow1:ResNet50V1Trainer",
        "tensorpack": "dlperf_models_2017.worker.resnet50_v1_tensorpack:ResNet50V1Trainer",
    }
    references = Path(__file__).with_name("references") / "resnet50_v1.json"

    def flops(self, options: ResNet50Options) -> tuple[Term, ...]:
        """Return one term per convolution, in the order of the manifest, and then one for the linear layer.

        In v1, all convolutions of a stage have the size of the stage's output. `options` gives the image size and the
        number of classes.
        """
        terms = []
        for parameter in self.parameters(options):
            name = parameter.name.removesuffix(".weight")
            if len(parameter.shape) == 4:
                outputs, inputs, kernel, _ = parameter.shape
                stage = int(name.removeprefix("layer")[0]) if name.startswith("layer") else 0
                size = -(-options.image_size // 2 ** (stage + 1))
                terms.append(
                    Term(
                        f"{name}: {inputs}×{kernel}×{kernel}→{outputs} at {size}×{size}",
                        parameter.size * size**2,
                        passes=2 if name == "conv1" else 3,
                    )
                )
            elif name == "fc":
                classes, features = parameter.shape
                terms.append(Term(f"fc: {features}→{classes}", parameter.size))
        return tuple(terms)

    def optimizer(self, options: ResNet50Options, global_batch_size: int) -> Optimizer:
        """Return SGD with momentum, whose learning rate grows with `global_batch_size`.

        With B samples per step over all replicas and the learning-rate policy `warmup`, the rate rises to
        0.1 · B / 256; with `constant`, it is 0.1 · min(B, 256) / 256. The option `learning_rate` of `options` replaces
        both. Momentum and weight decay are the options'.
        """
        recipe = super().optimizer(options, global_batch_size)
        rates = {}
        if options.learning_rate is None:
            rates["learning_rate"] = 0.1 * min(global_batch_size, 256) / 256
            rates["warmup_learning_rate"] = 0.1 * global_batch_size / 256
        return attrs.evolve(
            recipe,
            numbers={**recipe.numbers, **rates},
            source="He et al. 2016, section 3.4; Goyal et al. 2017 (linear scaling)",
        )
