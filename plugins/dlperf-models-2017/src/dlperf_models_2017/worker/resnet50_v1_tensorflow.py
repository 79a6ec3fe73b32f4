"""ResNet-50 v1 in TensorFlow: `dlperf_tensorflow`'s ResNet-50 with the stride of its bottlenecks in conv1."""

from dlperf_tensorflow.worker.resnet50 import ResNet50Trainer


class ResNet50V1Trainer(ResNet50Trainer):
    """The trainer of ResNet-50 v1: that of ResNet-50 with another network."""

    def build(self, options):
        """Return the network; conv1 of each bottleneck has the block's stride, and conv2 has stride 1.

        `options` holds the values of the model's options by name; it is not used.

        Raises:
            ManifestError: The manifest lacks a parameter of the network.
        """
        network = super().build(options)
        for block in network.blocks:
            block.conv1.stride, block.conv2.stride = block.conv2.stride, 1
            # As any 3×3 convolution of stride 1 has it.
            block.conv2.explicit_padding, block.conv2.padding = None, "SAME"
        return network
