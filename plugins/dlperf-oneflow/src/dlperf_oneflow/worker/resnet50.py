"""ResNet-50 v1.5 in OneFlow: He et al. 2016, table 1, with the stride of a bottleneck in its 3×3 convolution.

What is computed is laid down in `dlperf_sdk.models.resnet50`; the names are the manifest's.
"""

import oneflow as flow
import oneflow.nn.functional as F
from oneflow import nn

from dlperf_oneflow.worker.arithmetic import negative_log_softmax
from dlperf_oneflow.worker.training import OneFlowTrainer
from dlperf_sdk.worker.architectures import BATCH_NORM_EPSILON, BATCH_NORM_MOMENTUM, EXPANSION, STAGES


def convolution(inputs, outputs, kernel, stride=1):
    """Return an `nn.Conv2d` without bias, from `inputs` to `outputs` channels, with a `kernel` × `kernel` kernel.

    Zeros pad each side by half the kernel's size, rounded down. `stride` is the step of the kernel in both directions,
    in pixels.
    """
    return nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)


def batch_norm(channels):
    """Return an `nn.BatchNorm2d` for `channels` channels, which uses the statistics of this replica's micro-batch."""
    norm = nn.BatchNorm2d(channels, eps=BATCH_NORM_EPSILON, momentum=BATCH_NORM_MOMENTUM)
    # Batches are counted for a cumulative average, which a fixed momentum does not use: one kernel less.
    norm.num_batches_tracked = None
    return norm


class Bottleneck(nn.Module):
    """A residual block: convolutions of 1×1, 3×3 and 1×1, each with batch norm, and the shortcut around them.

    The convolutions return `width`, `width` and 4 × `width` channels; the block's input has `inputs` channels. `stride`
    is the stride of the 3×3 convolution. If `inputs` is not 4 × `width`, the shortcut is a 1×1 convolution of this
    stride, with batch norm.
    """

    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = EXPANSION * width
        self.conv1, self.bn1 = convolution(inputs, width, 1), batch_norm(width)
        self.conv2, self.bn2 = convolution(width, width, 3, stride), batch_norm(width)
        self.conv3, self.bn3 = convolution(width, outputs, 1), batch_norm(outputs)
        self.downsample = None
        if inputs != outputs:
            self.downsample = nn.Sequential(convolution(inputs, outputs, 1, stride), batch_norm(outputs))

    def forward(self, x):
        """Return the block's output for x: (B, inputs, H, W) → (B, 4 × width, ⌈H / stride⌉, ⌈W / stride⌉).

        `inputs`, `width` and `stride` are the arguments of the constructor.
        """
        shortcut = x if self.downsample is None else self.downsample(x)
        x = F.relu(self.bn1(self.conv1(x)))  # in place, a step took 4 % longer on a CPU
        x = F.relu(self.bn2(self.conv2(x)))
        return F.relu(self.bn3(self.conv3(x)) + shortcut)


class ResNet50(nn.Module):
    """ResNet-50: a 7×7 convolution, a max-pool, four stages of bottlenecks, the mean over positions, a linear layer.

    `classes` is the number of classes.
    """

    def __init__(self, classes):
        super().__init__()
        self.conv1, self.bn1 = convolution(3, 64, 7, stride=2), batch_norm(64)
        channels = 64
        for stage, (width, blocks) in enumerate(STAGES, start=1):
            layer = []
            for block in range(blocks):
                layer.append(Bottleneck(channels, width, stride=2 if stage > 1 and block == 0 else 1))
                channels = EXPANSION * width
            self.add_module("layer%d" % stage, nn.Sequential(*layer))
        self.fc = nn.Linear(channels, classes)

    def forward(self, x):
        """Return the logits, (B, classes), of the images x, (B, 3, H, W)."""
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.max_pool2d(x, 3, stride=2, padding=1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


class ResNet50Trainer(OneFlowTrainer):
    """The trainer of ResNet-50: classifies images. The loss is the cross entropy with label smoothing."""

    def build(self, options):
        """Return a new `ResNet50`, an `nn.Module`; its weights are not the canonical ones yet.

        `options` is a dict of the model's options, of which `num_classes` is read.
        """
        return ResNet50(options["num_classes"])

    def outputs(self, network, batch):
        """Return the network's logits for the images of a micro-batch: a tuple of one tensor, (B, classes).

        `network` is what `build` returned, or what DistributedDataParallel made of it. `batch` is a dict from input
        name to tensor, on the device, of which `image`, (B, 3, H, W), is read.
        """
        return (network(batch["image"]),)

    def loss(self, outputs, batch):
        """Return the cross entropy with label smoothing, the mean over the micro-batch: a float32 scalar.

        For a sample it is (1 - ε) · (-log p[label]) + ε · mean over the classes of -log p; ε is the model's option
        `label_smoothing`. `outputs` is a tuple of one tensor, the logits (B, classes). `batch` is a dict from input
        name to tensor; its `label` holds the indices of the classes, (B,).
        """
        smoothing = self.request.model_options["label_smoothing"]
        per_class = negative_log_softmax(outputs[0])
        label = flow.gather(per_class, 1, batch["label"].unsqueeze(-1)).mean()
        return (1 - smoothing) * label + smoothing * per_class.mean()
