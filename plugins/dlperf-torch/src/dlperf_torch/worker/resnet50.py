"""ResNet-50 v1.5 in torch: He et al. 2016, table 1, with the stride of a bottleneck in its 3×3 convolution.

What is computed is laid down in `dlperf_sdk.models.resnet50`; the names are the manifest's.
"""

from functools import partial

import torch.nn.functional as F
from torch import nn

from dlperf_sdk.worker.architectures import BATCH_NORM_EPSILON, BATCH_NORM_MOMENTUM, EXPANSION, STAGES
from dlperf_torch.worker.levers import BatchNorm, BatchNormFp32
from dlperf_torch.worker.training import TorchTrainer


def convolution(inputs, outputs, kernel, stride=1):
    """Return an `nn.Conv2d` without bias, from `inputs` to `outputs` channels, with a `kernel` × `kernel` kernel.

    Zeros pad each side by half the kernel's size, rounded down. `stride` is the step of the kernel in both directions,
    in pixels.
    """
    return nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)


def batch_norm(channels, kind=BatchNorm):
    """Return a batch norm layer for `channels` channels, which uses the statistics of this replica's micro-batch.

    `kind` is the layer's class: `BatchNorm` or one derived from it.
    """
    norm = kind(channels, eps=BATCH_NORM_EPSILON, momentum=BATCH_NORM_MOMENTUM)
    # torch counts batches for a cumulative average, which a fixed momentum does not use: one kernel less.
    norm.num_batches_tracked = None
    return norm


def max_pool(x):
    """Return the 3×3 max-pool with stride 2 and padding 1 of x, (B, C, H, W), as a pair of the same tensor twice.

    The tensor is (B, C, ⌈H / 2⌉, ⌈W / 2⌉), in x's type; each item of the pair is for one branch of the next block.
    """
    x = F.max_pool2d(x, 3, stride=2, padding=1)
    return x, x


class Bottleneck(nn.Module):
    """A residual block: convolutions of 1×1, 3×3 and 1×1, each with batch norm, and the shortcut around them.

    If `inputs` is not 4 × `width`, the shortcut is a 1×1 convolution with the block's stride, and batch norm.

    Args:
        inputs: Channels of the block's input.
        width: Channels of the first two convolutions; the block's output has 4 × `width`.
        stride: Stride of the 3×3 convolution.
        batch_norm: Function of a number of channels that returns a batch norm, such as this module's `batch_norm`.
    """

    def __init__(self, inputs, width, stride, batch_norm=batch_norm):
        super().__init__()
        outputs = EXPANSION * width
        self.conv1, self.bn1 = convolution(inputs, width, 1), batch_norm(width)
        self.conv2, self.bn2 = convolution(width, width, 3, stride), batch_norm(width)
        self.conv3, self.bn3 = convolution(width, outputs, 1), batch_norm(outputs)
        self.downsample = None
        if inputs != outputs:
            self.downsample = nn.Sequential(convolution(inputs, outputs, 1, stride), batch_norm(outputs))

    def forward(self, branches):
        """Return the block's output as a pair of equal tensors, (B, 4 × width, ⌈H / stride⌉, ⌈W / stride⌉).

        `branches` is a pair of equal tensors, (B, inputs, H, W): the block's input, once for the convolutions and once
        for the shortcut. Because there are two, the operation that made them adds their gradients in its own backward
        pass. The axes are in this order in both layouts; `nhwc` is the memory format `channels_last`.
        """
        x, shortcut = branches
        if self.downsample is not None:
            shortcut = self.downsample(shortcut)
        x = self.bn1.activate(self.conv1(x))
        x = self.bn2.activate(self.conv2(x))
        return self.bn3.activate_sum(self.conv3(x), shortcut)


class ResNet50(nn.Module):
    """ResNet-50: a 7×7 convolution, a max-pool, four stages of bottlenecks, the mean over positions, a linear layer.

    Args:
        classes: Number of classes.
        batch_norm: Function of a number of channels that returns a batch norm, such as this module's `batch_norm`.
        max_pool: Function with the argument and the result of this module's `max_pool`.
    """

    def __init__(self, classes, batch_norm=batch_norm, max_pool=max_pool):
        super().__init__()
        self.max_pool = max_pool
        self.conv1, self.bn1 = convolution(3, 64, 7, stride=2), batch_norm(64)
        channels = 64
        for stage, (width, blocks) in enumerate(STAGES, start=1):
            layer = nn.Sequential()
            for block in range(blocks):
                stride = 2 if stage > 1 and block == 0 else 1
                layer.append(Bottleneck(channels, width, stride, batch_norm))
                channels = EXPANSION * width
            self.add_module("layer%d" % stage, layer)
        self.fc = nn.Linear(channels, classes)

    def forward(self, x):
        """Return the logits, (B, classes), of the images x, (B, 3, H, W).

        The axes are in this order in both layouts. The images are cast to the type of the weights.
        """
        x = self.bn1.activate(self.conv1(x.to(self.conv1.weight.dtype)))
        x, _ = self.layer4(self.layer3(self.layer2(self.layer1(self.max_pool(x)))))
        return self.fc(x.mean((2, 3)))


class ResNet50Trainer(TorchTrainer):
    """The trainer of ResNet-50: classifies images. The loss is the cross entropy with label smoothing."""

    def build(self, options):
        """Return a `ResNet50`, an `nn.Module` on the CPU, with the batch norm that the plugin's options choose.

        `options` is a dict of the model's options, of which `num_classes` is read.
        """
        classes, chosen = options["num_classes"], self.request.framework_options
        if chosen["fused_batch_norm"]:
            # Triton is where the GPUs are, and nowhere else.
            from dlperf_torch.worker import fused_batch_norm, fused_max_pool

            kind = fused_batch_norm.FusedBatchNorm
            return ResNet50(classes, partial(batch_norm, kind=kind), fused_max_pool.max_pool)
        kind = BatchNormFp32 if chosen["batch_norm_fp32"] else BatchNorm
        return ResNet50(classes, partial(batch_norm, kind=kind))

    def outputs(self, network, batch):
        """Return the network's logits for the images of a micro-batch: a tuple of one tensor, (B, classes).

        `network` is what `build` returned, or what DistributedDataParallel or the compiler made of it. `batch` is a
        dict from input name to tensor, on the device, of which `image`, (B, 3, H, W), is read.
        """
        return (network(batch["image"]),)

    def loss(self, outputs, batch):
        """Return the cross entropy with label smoothing, the mean over the micro-batch: a float32 scalar.

        For a sample it is (1 - ε) · (-log p[label]) + ε · mean over the classes of -log p; ε is the model's option
        `label_smoothing`. `outputs` is a tuple of one tensor, the logits (B, classes). `batch` is a dict from input
        name to tensor; its `label` holds the indices of the classes, (B,).
        """
        smoothing = self.request.model_options["label_smoothing"]
        return F.cross_entropy(outputs[0], batch["label"], label_smoothing=smoothing)
