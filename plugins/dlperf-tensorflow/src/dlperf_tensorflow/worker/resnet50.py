"""ResNet-50 v1.5 in TensorFlow: He et al. 2016, table 1, with the stride of a bottleneck in its 3×3 convolution.

What is computed is laid down in `dlperf_sdk.models.resnet50`; the names are the manifest's. Every layer
computes in the type of what it is given.
"""

import tensorflow as tf

from dlperf_sdk.worker.architectures import BATCH_NORM_EPSILON, BATCH_NORM_MOMENTUM, STAGES
from dlperf_tensorflow.worker.training import TensorFlowTrainer


class Convolution(tf.Module):
    """A convolution without bias. Zeros pad each side by half the kernel's size, rounded down.

    Args:
        weights: The `Weights` of the network. The kernel is HWIO, and is cast to the type of the input.
        name: The layer's name in the manifest.
        stride: Step of the kernel in both directions, in pixels.

    Raises:
        ManifestError: The manifest has no such layer.
    """

    def __init__(self, weights, name, stride=1):
        super().__init__()
        self.weight = weights(name + ".weight", (2, 3, 1, 0))
        self.stride = stride
        self.layout = weights.layout
        pad = self.weight.shape[0] // 2
        # Where the stride is 1, "SAME" is that padding; where it is 2, it would pad on one side only. TensorFlow
        # takes explicit padding as well, but then computes the gradients without oneDNN, several times slower.
        self.explicit_padding = spatial(self.layout, [pad, pad], [0, 0]) if pad and stride > 1 else None
        self.padding = "SAME" if pad and stride == 1 else "VALID"

    def __call__(self, x):
        if self.explicit_padding is not None:
            x = tf.pad(x, self.explicit_padding)
        kernel = tf.cast(self.weight, x.dtype)
        return tf.nn.conv2d(x, kernel, self.stride, self.padding, data_format=self.layout)


class BatchNorm(tf.Module):
    """A batch norm with the statistics of this replica's micro-batch, which also updates the running statistics.

    `name` is the layer's name in the manifest, and `weights` are the `Weights` of the network. One kernel computes the
    output and the running statistics.

    Raises:
        ManifestError: The manifest has no such layer.
    """

    def __init__(self, weights, name):
        super().__init__()
        self.layout = weights.layout
        self.gamma = weights(name + ".weight", is_wide=True)
        self.beta = weights(name + ".bias", is_wide=True)
        channels = self.gamma.shape
        self.running_mean = weights.statistic(name + ".running_mean", tf.zeros(channels))
        self.running_variance = weights.statistic(name + ".running_var", tf.ones(channels))

    def __call__(self, x):
        y, mean, variance, *_ = tf.raw_ops.FusedBatchNormV3(
            x=x,
            scale=self.gamma,
            offset=self.beta,
            mean=self.running_mean,
            variance=self.running_variance,
            epsilon=BATCH_NORM_EPSILON,
            exponential_avg_factor=BATCH_NORM_MOMENTUM,
            is_training=True,
            data_format=self.layout,
        )
        self.running_mean.assign(mean)
        self.running_variance.assign(variance)
        return y


class Bottleneck(tf.Module):
    """A residual block: convolutions of 1×1, 3×3 and 1×1, each with batch norm, and the shortcut around them.

    Args:
        weights: The `Weights` of the network, which give the channels.
        name: The block's name in the manifest, such as `layer1.0`.
        stride: Stride of the 3×3 convolution.
        shortcut: True if the shortcut is a 1×1 convolution of that stride, with batch norm.

    Raises:
        ManifestError: The manifest lacks a parameter of the block.
    """

    def __init__(self, weights, name, stride, shortcut):
        super().__init__()
        self.conv1, self.bn1 = Convolution(weights, name + ".conv1"), BatchNorm(weights, name + ".bn1")
        self.conv2, self.bn2 = (
            Convolution(weights, name + ".conv2", stride),
            BatchNorm(weights, name + ".bn2"),
        )
        self.conv3, self.bn3 = Convolution(weights, name + ".conv3"), BatchNorm(weights, name + ".bn3")
        self.downsample = None
        if shortcut:
            self.downsample = (
                Convolution(weights, name + ".downsample.0", stride),
                BatchNorm(weights, name + ".downsample.1"),
            )

    def __call__(self, x):
        """Return the block's output: (B, inputs, H, W) → (B, 4 × width, ⌈H / stride⌉, ⌈W / stride⌉).

        That is the layout `NCHW`; in `NHWC`, channels are the last axis of both.
        """
        shortcut = x
        if self.downsample is not None:
            convolution, norm = self.downsample
            shortcut = norm(convolution(x))
        x = tf.nn.relu(self.bn1(self.conv1(x)))
        x = tf.nn.relu(self.bn2(self.conv2(x)))
        return tf.nn.relu(self.bn3(self.conv3(x)) + shortcut)


class ResNet50(tf.Module):
    """ResNet-50: a 7×7 convolution, a max-pool, four stages of bottlenecks, the mean over positions, a linear layer.

    `weights` are the `Weights` of the network, which give the channels and the number of classes.

    Raises:
        ManifestError: The manifest lacks a parameter of the network.
    """

    def __init__(self, weights):
        super().__init__()
        self.layout = weights.layout
        self.conv1, self.bn1 = Convolution(weights, "conv1", stride=2), BatchNorm(weights, "bn1")
        self.blocks = [
            Bottleneck(
                weights,
                "layer%d.%d" % (stage, block),
                stride=2 if stage > 1 and block == 0 else 1,
                shortcut=block == 0,
            )
            for stage, (_, blocks) in enumerate(STAGES, start=1)
            for block in range(blocks)
        ]
        self.weight, self.bias = weights("fc.weight", (1, 0)), weights("fc.bias")

    def __call__(self, x):
        """Return the logits, (B, classes), of images: (B, 3, H, W) in the layout `NCHW`, (B, H, W, 3) in `NHWC`."""
        x = tf.nn.relu(self.bn1(self.conv1(x)))
        # Behind a ReLU, zeros are as good a padding of a maximum as -∞, and XLA takes no other.
        x = tf.nn.max_pool2d(
            tf.pad(x, spatial(self.layout, [1, 1], [0, 0])), 3, 2, "VALID", data_format=self.layout
        )
        for block in self.blocks:
            x = block(x)
        x = tf.reduce_mean(x, (1, 2) if self.layout == "NHWC" else (2, 3))
        return tf.matmul(x, tf.cast(self.weight, x.dtype)) + tf.cast(self.bias, x.dtype)


def spatial(layout, spatial_axes, other_axes):
    """Return a list with one item per axis of a batch of images, in the order of the layout.

    Args:
        layout: `NCHW` or `NHWC`.
        spatial_axes: The item for the axes H and W.
        other_axes: The item for the axes N and C.
    """
    return (
        [other_axes, spatial_axes, spatial_axes, other_axes]
        if layout == "NHWC"
        else [other_axes, other_axes, spatial_axes, spatial_axes]
    )


class ResNet50Trainer(TensorFlowTrainer):
    """The trainer of ResNet-50: classifies images. The loss is the cross entropy with label smoothing."""

    def build(self, options):
        """Return a `ResNet50`, a callable `tf.Module`, whose variables are those of the trainer's `weights`.

        `options` is not used, since the shapes in the manifest give the number of classes.

        Raises:
            ManifestError: The manifest lacks a parameter of the network.
        """
        return ResNet50(self.weights)

    def outputs(self, network, batch):
        """Return the network's logits for the images of a micro-batch: a tuple of one tensor, (B, classes).

        `network` is what `build` returned. `batch` is a dict from input name to tensor, on the device, of which `image`
        is read: (B, H, W, 3) in the layout `nhwc`, (B, 3, H, W) in `nchw`.
        """
        return (network(tf.cast(batch["image"], self.dtype)),)

    def loss(self, outputs, batch):
        """Return the cross entropy with label smoothing, the mean over the micro-batch: a float32 scalar.

        For a sample it is (1 - ε) · (-log p[label]) + ε · mean over the classes of -log p; ε is the model's option
        `label_smoothing`. `outputs` is a tuple of one tensor, the logits (B, classes). `batch` is a dict from input
        name to tensor; its `label` holds the indices of the classes, (B,).
        """
        smoothing = self.request.model_options["label_smoothing"]
        minus_log = -tf.nn.log_softmax(tf.cast(outputs[0], tf.float32))
        per_sample = tf.gather(minus_log, batch["label"], batch_dims=1)
        return tf.reduce_mean((1.0 - smoothing) * per_sample + smoothing * tf.reduce_mean(minus_log, -1))
