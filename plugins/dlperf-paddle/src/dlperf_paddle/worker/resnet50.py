"""ResNet-50 v1.5 in Paddle: He et al. 2016, table 1, with the stride of a bottleneck in its 3×3 convolution.

What is computed is laid down in `dlperf_sdk.models.resnet50`; the names are the manifest's.
"""

import paddle.nn.functional as F
from paddle import nn

from dlperf_paddle.worker.training import PaddleTrainer
from dlperf_sdk.worker.architectures import BATCH_NORM_EPSILON, BATCH_NORM_MOMENTUM, EXPANSION, STAGES


def convolution(inputs, outputs, kernel, stride, layout):
    """Return an `nn.Conv2D` without bias, from `inputs` to `outputs` channels, with a `kernel` × `kernel` kernel.

    Zeros pad each side by half the kernel's size, rounded down. `layout` is `NCHW` or `NHWC`. `stride` is the step of
    the kernel in both directions, in pixels.
    """
    return nn.Conv2D(
        inputs, outputs, kernel, stride, padding=kernel // 2, bias_attr=False, data_format=layout
    )


def batch_norm(channels, layout):
    """Return an `nn.BatchNorm2D` for `channels` channels, which uses the statistics of this replica's micro-batch.

    `layout` is `NCHW` or `NHWC`.
    """
    return nn.BatchNorm2D(
        channels, momentum=1 - BATCH_NORM_MOMENTUM, epsilon=BATCH_NORM_EPSILON, data_format=layout
    )


class Bottleneck(nn.Layer):
    """A residual block: convolutions of 1×1, 3×3 and 1×1, each with batch norm, and the shortcut around them.

    The convolutions return `width`, `width` and 4 × `width` channels; the block's input has `inputs` channels. `stride`
    is the stride of the 3×3 convolution. If `inputs` is not 4 × `width`, the shortcut is a 1×1 convolution of this
    stride, with batch norm. `layout` is `NCHW` or `NHWC`.
    """

    def __init__(self, inputs, width, stride, layout):
        super().__init__()
        outputs = EXPANSION * width
        self.conv1, self.bn1 = convolution(inputs, width, 1, 1, layout), batch_norm(width, layout)
        self.conv2, self.bn2 = convolution(width, width, 3, stride, layout), batch_norm(width, layout)
        self.conv3, self.bn3 = convolution(width, outputs, 1, 1, layout), batch_norm(outputs, layout)
        self.downsample = None
        if inputs != outputs:
            self.downsample = nn.Sequential(
                convolution(inputs, outputs, 1, stride, layout), batch_norm(outputs, layout)
            )

    def forward(self, x):
        """Return the block's output for x: (B, inputs, H, W) → (B, 4 × width, ⌈H / stride⌉, ⌈W / stride⌉).

        `inputs`, `width` and `stride` are the arguments of the constructor. The axes are those of the layout `NCHW`; in
        `NHWC`, the channels are the last axis of input and output.
        """
        shortcut = x if self.downsample is None else self.downsample(x)
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        x = self.bn3(self.conv3(x))
        x += shortcut  # in place, as the sum of two new arrays would be one more
        return F.relu(x)


class ResNet50(nn.Layer):
    """ResNet-50: a 7×7 convolution, a max-pool, four stages of bottlenecks, the mean over positions, a linear layer.

    `classes` is the number of classes. `layout` is `NCHW` or `NHWC`.
    """

    def __init__(self, classes, layout):
        super().__init__()
        self.layout = layout
        self.conv1, self.bn1 = convolution(3, 64, 7, 2, layout), batch_norm(64, layout)
        channels = 64
        for stage, (width, blocks) in enumerate(STAGES, start=1):
            layer = nn.Sequential()
            for block in range(blocks):
                stride = 2 if stage > 1 and block == 0 else 1
                layer.add_sublayer(str(block), Bottleneck(channels, width, stride, layout))
                channels = EXPANSION * width
            self.add_sublayer("layer%d" % stage, layer)
        self.fc = nn.Linear(channels, classes)

    def forward(self, x):
        """Return the logits, (B, classes), of the images x.

        x is (B, 3, H, W) in the layout `NCHW`, and (B, H, W, 3) in `NHWC`.
        """
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.max_pool2d(x, 3, stride=2, padding=1, data_format=self.layout)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3) if self.layout == "NCHW" else (1, 2)))


class ResNet50Trainer(PaddleTrainer):
    """The trainer of ResNet-50: classifies images. The loss is the cross entropy with label smoothing."""

    def build(self, options):
        """Return a new `ResNet50`, an `nn.Layer` in the trainer's layout; its weights are not the canonical ones yet.

        `options` is a dict of the model's options, of which `num_classes` is read.
        """
        return ResNet50(options["num_classes"], self.layout.upper())

    def outputs(self, network, batch):
        """Return the network's logits for the images of a micro-batch: a tuple of one tensor, (B, classes).

        `network` is what `build` returned, or what DataParallel or the compiler made of it. `batch` is a dict from
        input name to tensor, on the device, of which `image` is read: (B, 3, H, W) in the layout `nchw`, (B, H, W, 3)
        in `nhwc`.
        """
        return (network(batch["image"]),)

    def loss(self, outputs, batch):
        """Return the cross entropy with label smoothing, the mean over the micro-batch: a float32 scalar.

        For a sample it is (1 - ε) · (-log p[label]) + ε · mean over the classes of -log p; ε is the model's option
        `label_smoothing`. `outputs` is a tuple of one tensor, the logits (B, classes). `batch` is a dict from input
        name to tensor; its `label` holds the indices of the classes, (B,).
        """
        smoothing = self.request.model_options["label_smoothing"]
        return F.cross_entropy(outputs[0].astype("float32"), batch["label"], label_smoothing=smoothing)
