"""ResNet-50 v1 in TensorFlow: `dlperf_tensorflow`'s ResNet-50 with the stride of its bottlenecks in conv1."""

from dlperf_tensorflow.worker.resnet50 import ResNet50Trainer


class ResNet50V1Trainer(ResNet50Trainer):
    """The trainer of ResNet-50 v1: that of ResNet-50 with another network."""

    def build(self, options):
        """Return the network, ResNet-50 with the stride of each bottleneck in its first 1×1 convolution.

        It is a `tf.Module`: called with images, it returns logits, (B, classes). `options` is not used: the manifest's
        shapes give the number of classes.

        Raises:
            ManifestError: The manifest lacks a parameter of the network.
        """
        network = super().build(options)
        for block in network.blocks:
            block.conv1.stride, block.conv2.stride = block.conv2.stride, 1
            # As any 3×3 convolution of stride 1 has it.
            block.conv2.explicit_padding, block.conv2.padding = None, "SAME"
        return network
