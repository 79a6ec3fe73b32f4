"""ResNet-50 v1 in TensorFlow 1: `dlperf_tensorflow1`'s ResNet-50 with other strides."""

from functools import partial

from dlperf_tensorflow1.worker.resnet50 import ResNet50Trainer


class ResNet50V1Trainer(ResNet50Trainer):
    """The trainer of ResNet-50 v1: that of ResNet-50 with another network."""

    def build(self, options):
        """Return the network, whose bottlenecks halve the resolution in their first 1×1 convolution.

        `options` holds the values of the model's options by name; it is not used.
        """
        return partial(super().build(options), halving=(2, 1))
