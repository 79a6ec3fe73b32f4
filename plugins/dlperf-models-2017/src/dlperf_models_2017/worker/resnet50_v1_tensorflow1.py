"""ResNet-50 v1 in TensorFlow 1: `dlperf_tensorflow1`'s ResNet-50 with other strides."""

from functools import partial

from dlperf_tensorflow1.worker.resnet50 import ResNet50Trainer


class ResNet50V1Trainer(ResNet50Trainer):
    """The trainer of ResNet-50 v1: that of ResNet-50 with another network."""

    def build(self, options):
        """Return the network, a function of the `Weights` and a tensor of images that returns logits, (B, classes).

        It is ResNet-50 with the stride of each bottleneck in its first 1×1 convolution. `options` is not used: the
        manifest's shapes give the number of classes.
        """
        return partial(super().build(options), halving=(2, 1))
