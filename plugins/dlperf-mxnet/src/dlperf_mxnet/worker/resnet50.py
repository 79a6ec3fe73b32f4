"""ResNet-50 v1.5 in MXNet: He et al. 2016, table 1, with the stride of a bottleneck in its 3×3 convolution.

What is computed is laid down in `dlperf_sdk.models.resnet50`; the names are the manifest's.
"""

from mxnet.gluon import HybridBlock, nn

from dlperf_mxnet.worker.arithmetic import negative_log_softmax
from dlperf_mxnet.worker.training import MXNetTrainer
from dlperf_sdk.worker.architectures import BATCH_NORM_EPSILON, BATCH_NORM_MOMENTUM, EXPANSION, STAGES


def convolution(inputs, outputs, kernel, stride, layout):
    """Return gluon's block for a convolution without bias, with a `kernel` × `kernel` kernel.

    It has `inputs` input and `outputs` output channels. Zeros pad each side by half the kernel's size, rounded down.
    `layout` is `NCHW` or `NHWC`. `stride` is the step of the kernel in both directions, in pixels.
    """
    return nn.Conv2D(outputs, kernel, stride, kernel // 2, use_bias=False, in_channels=inputs, layout=layout)


def batch_norm(channels, layout):
    """Return gluon's block for a batch norm of `channels` channels, with the statistics of this replica's micro-batch.

    `layout` is `NCHW` or `NHWC`.
    """
    return nn.BatchNorm(
        axis=layout.index("C"),
        epsilon=BATCH_NORM_EPSILON,
        momentum=1 - BATCH_NORM_MOMENTUM,
        in_channels=channels,
    )


def relu(F, x):
    """Return max(x, 0) for each element of x, an array or a symbol, by the operator for which oneDNN has a kernel.

    `F.relu` has none: it would have to convert x from oneDNN's memory layout. `F` is MXNet's module of operators for
    the type of x: `mx.nd` or `mx.sym`.
    """
    return F.Activation(x, act_type="relu")


class Bottleneck(HybridBlock):
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
            self.downsample = nn.HybridSequential()
            self.downsample.add(convolution(inputs, outputs, 1, stride, layout), batch_norm(outputs, layout))

    def hybrid_forward(self, F, x):
        """Return the block's output for x: (B, inputs, H, W) → (B, 4 × width, ⌈H / stride⌉, ⌈W / stride⌉).

        `inputs`, `width` and `stride` are the arguments of the constructor. The axes are those of the layout `NCHW`; in
        `NHWC`, the channels are the last axis of input and output. `F` is MXNet's module of operators: `mx.nd` for
        arrays, `mx.sym` for symbols.
        """
        shortcut = x if self.downsample is None else self.downsample(x)
        x = relu(F, self.bn1(self.conv1(x)))
        x = relu(F, self.bn2(self.conv2(x)))
        x = self.bn3(self.conv3(x))
        return relu(F, F.elemwise_add(x, shortcut))


class ResNet50(HybridBlock):
    """ResNet-50: a 7×7 convolution, a max-pool, four stages of bottlenecks, the mean over positions, a linear layer.

    `classes` is the number of classes. `layout` is `NCHW` or `NHWC`.
    """

    def __init__(self, classes, layout):
        super().__init__()
        self.conv1, self.bn1 = convolution(3, 64, 7, 2, layout), batch_norm(64, layout)
        self.pool = nn.MaxPool2D(3, 2, 1, layout)
        channels = 64
        for stage, (width, blocks) in enumerate(STAGES, start=1):
            layer = nn.HybridSequential()
            for block in range(blocks):
                layer.add(Bottleneck(channels, width, 2 if stage > 1 and block == 0 else 1, layout))
                channels = EXPANSION * width
            setattr(self, "layer%d" % stage, layer)
        self.mean = nn.GlobalAvgPool2D(layout)
        self.dtype = "float32"
        self.fc = nn.Dense(classes, in_units=channels)

    def hybrid_forward(self, F, x):
        """Return the logits, (B, classes), of the images x: (B, 3, H, W) in the layout `NCHW`, (B, H, W, 3) in `NHWC`.

        `F` is MXNet's module of operators: `mx.nd` for arrays, `mx.sym` for symbols.
        """
        x = x if self.dtype == "float32" else F.cast(x, dtype=self.dtype)
        x = relu(F, self.bn1(self.conv1(x)))
        x = self.pool(x)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.mean(x))

    def cast(self, dtype):
        """Set the type of all parameters but batch norm's, and of the activations, to `dtype`, such as `float16`."""
        super().cast(dtype)
        self.dtype = dtype


class Loss(HybridBlock):
    """The cross entropy with label smoothing, as a block.

    For a sample it is (1 - ε) · (-log p[label]) + ε · mean over the classes of -log p; `smoothing` is ε.
    """

    def __init__(self, smoothing):
        super().__init__()
        self.smoothing = smoothing

    def hybrid_forward(self, F, logits, label):
        """Return the loss, (1,), the mean over B samples with the logits `logits`, (B, classes).

        `label`, (B,), has the indices of the samples' classes. `F` is MXNet's module of operators: `mx.nd` for arrays,
        `mx.sym` for symbols.
        """
        per_class = negative_log_softmax(F, logits)
        per_sample = (1 - self.smoothing) * F.pick(per_class, label) + self.smoothing * per_class.mean(axis=1)
        return per_sample.mean()


class ResNet50Trainer(MXNetTrainer):
    """The trainer of ResNet-50: classifies images. The loss is the cross entropy with label smoothing."""

    def build(self, options):
        """Return a `ResNet50`, a hybrid block of gluon that is not initialized yet.

        `options` is a dict of the model's options, of which `num_classes` is read.
        """
        return ResNet50(options["num_classes"], self.layout.upper())

    def build_criterion(self, options):
        """Return a `Loss`, a hybrid block that computes the cross entropy with the option `label_smoothing`.

        `options` is a dict of the model's options, of which `label_smoothing` is read.
        """
        return Loss(options["label_smoothing"])

    def outputs(self, network, batch):
        """Return the network's logits for the images of a micro-batch: a tuple of one array, (B, classes).

        `network` is what `build` returned. `batch` is a dict from input name to array, on the device, of which `image`
        is read: (B, 3, H, W) in the layout `nchw`, (B, H, W, 3) in `nhwc`.
        """
        return (network(batch["image"]),)

    def loss(self, outputs, batch):
        """Return the cross entropy with label smoothing, the mean over the micro-batch: an array (1,).

        For a sample it is (1 - ε) · (-log p[label]) + ε · mean over the classes of -log p; ε is the model's option
        `label_smoothing`. `outputs` is a tuple of one array, the logits (B, classes). `batch` is a dict from input name
        to array; its `label` holds the indices of the classes, (B,).
        """
        return self.criterion(*outputs, batch["label"])
