"""ResNet-50 v1 in torch: `dlperf_torch`'s ResNet-50 with the stride of a bottleneck in its first 1×1 convolution."""

from dlperf_torch.worker import resnet50


class ResNet50V1Trainer(resnet50.ResNet50Trainer):
    """The trainer of ResNet-50 v1: that of ResNet-50 with another network."""

    def build(self, options):
        """Return the network, ResNet-50 with the stride of each bottleneck in its first 1×1 convolution.

        It is an `nn.Module`: called with images, it returns logits, (B, classes). `options` is a dict with the values
        of the model's options, of which `num_classes` is read.
        """
        network = super().build(options)
        for block in network.modules():
            if isinstance(block, resnet50.Bottleneck):
                block.conv1.stride, block.conv2.stride = block.conv2.stride, block.conv1.stride
        return network
