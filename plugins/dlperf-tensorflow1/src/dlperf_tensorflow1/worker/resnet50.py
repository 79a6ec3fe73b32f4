"""ResNet-50 v1.5 in TensorFlow 1: He et al. 2016, table 1, with the stride of a bottleneck in its 3×3 convolution.

What is computed is laid down in `dlperf_sdk.models.resnet50`; the names are the manifest's. Every layer computes in the
type of what it is given; batch norm's parameters and statistics are float32.
"""

import tensorflow.compat.v1 as tf

from dlperf_sdk.worker.architectures import BATCH_NORM_EPSILON, BATCH_NORM_MOMENTUM, STAGES
from dlperf_tensorflow1.worker.training import TensorFlow1Trainer


def convolve(weights, name, x, stride=1):
    """Return the output of a convolution without bias for x; zeros pad each side by half the kernel, rounded down.

    Args:
        weights: The `Weights` of the network. The kernel is HWIO, and is cast to x's type.
        name: The layer's name in the manifest.
        x: The images, in the layout of `weights`.
        stride: Step of the kernel in both directions, in pixels.

    Raises:
        ManifestError: The manifest has no such layer.
    """
    kernel = tf.cast(weights(name + ".weight", (2, 3, 1, 0)), x.dtype)
    pad = int(kernel.shape[0]) // 2
    # Where the stride is 1, "SAME" is that padding; where it is 2, it would pad on one side only.
    if pad and stride > 1:
        x = tf.pad(x, spatial(weights.layout, [pad, pad], [0, 0]))
    padding = "SAME" if pad and stride == 1 else "VALID"
    strides = spatial(weights.layout, stride, 1)
    return tf.nn.conv2d(x, kernel, strides, padding, data_format=weights.layout)


def normalize(weights, name, x):
    """Return the output of a batch norm with gamma and beta for the images x, in x's shape and type.

    `weights` are the `Weights` of the network. The operations that update the running statistics are appended to
    `weights.updates`. `name` is the layer's name in the manifest.

    Raises:
        ManifestError: The manifest has no such layer.
    """
    return batch_norm(weights, name, x, weights(name + ".weight"), BATCH_NORM_EPSILON, BATCH_NORM_MOMENTUM)


def batch_norm(weights, name, x, gamma, epsilon, momentum):
    """Return the batch norm of x with the statistics of this replica's micro-batch, in x's shape and type.

    The operations that update the running statistics are appended to `weights.updates`.

    Args:
        weights: The `Weights`, which have the parameter beta.
        name: The layer's name in the manifest.
        x: The images, in the layout of `weights`.
        gamma: The scale of each channel, a tensor (channels,).
        epsilon: Number that is added to the variance.
        momentum: Weight of the micro-batch's statistics in the running statistics, from 0 to 1.

    Raises:
        ManifestError: The manifest lacks the layer's beta.
    """
    y, mean, variance = tf.nn.fused_batch_norm(
        x, gamma, weights(name + ".bias"), epsilon=epsilon, data_format=weights.layout, is_training=True
    )
    for kind, initial, value in (("running_mean", 0.0, mean), ("running_var", 1.0, variance)):
        running = weights.statistic("%s.%s" % (name, kind), gamma.shape, initial)
        weights.updates.append(running.assign_sub((running - value) * momentum))
    return y


def bottleneck(weights, name, x, strides, has_shortcut):
    """Return the output of a residual block for x, (B, C, H, W): a tensor (B, 4 × width, ⌈H / S⌉, ⌈W / S⌉).

    The block has convolutions of 1×1, 3×3 and 1×1 with batch norm, and the shortcut around them. The first two have
    `width` output channels. S is the larger stride. The shapes are those of the layout `NCHW`; in `NHWC`, the channels
    are the last axis.

    Args:
        weights: The `Weights`, whose shapes give the channels.
        name: The block's name in the manifest, such as `layer1.0`.
        x: The images.
        strides: Strides of the first 1×1 convolution and of the 3×3 convolution, a pair.
        has_shortcut: True if the shortcut is a 1×1 convolution of the larger stride, with batch norm.

    Raises:
        ManifestError: The manifest lacks a parameter of the block.
    """
    shortcut = x
    if has_shortcut:
        shortcut = convolve(weights, name + ".downsample.0", x, max(strides))
        shortcut = normalize(weights, name + ".downsample.1", shortcut)
    x = tf.nn.relu(normalize(weights, name + ".bn1", convolve(weights, name + ".conv1", x, strides[0])))
    x = tf.nn.relu(normalize(weights, name + ".bn2", convolve(weights, name + ".conv2", x, strides[1])))
    return tf.nn.relu(normalize(weights, name + ".bn3", convolve(weights, name + ".conv3", x)) + shortcut)


def resnet50(weights, x, halving=(1, 2)):
    """Return the logits, (B, classes), of the images x: (B, 3, H, W) in the layout `NCHW`, (B, H, W, 3) in `NHWC`.

    The layers are a 7×7 convolution, a max-pool, four stages of bottlenecks, the mean over positions, a linear layer.

    Args:
        weights: The `Weights` of the network, which give the layout, the channels and the number of classes.
        x: The images.
        halving: Strides of the first 1×1 and of the 3×3 convolution of a bottleneck that halves the resolution.

    Raises:
        ManifestError: The manifest lacks a parameter of the network.
    """
    layout = weights.layout
    x = tf.nn.relu(normalize(weights, "bn1", convolve(weights, "conv1", x, stride=2)))
    # Behind a ReLU, zeros are as good a padding of a maximum as -∞.
    x = tf.pad(x, spatial(layout, [1, 1], [0, 0]))
    x = tf.nn.max_pool(x, spatial(layout, 3, 1), spatial(layout, 2, 1), "VALID", data_format=layout)
    for stage, (_, blocks) in enumerate(STAGES, start=1):
        for block in range(blocks):
            strides = halving if stage > 1 and block == 0 else (1, 1)
            x = bottleneck(weights, "layer%d.%d" % (stage, block), x, strides, has_shortcut=block == 0)
    x = tf.reduce_mean(x, (1, 2) if layout == "NHWC" else (2, 3))
    return tf.matmul(x, tf.cast(weights("fc.weight", (1, 0)), x.dtype)) + tf.cast(weights("fc.bias"), x.dtype)


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


class ResNet50Trainer(TensorFlow1Trainer):
    """The trainer of ResNet-50: classifies images. The loss is the cross entropy with label smoothing."""

    def build(self, options):
        """Return the network: a function of a `Weights` and a tensor of images that returns the logits, (B, classes).

        `options` is not used: the manifest's shapes give the number of classes.
        """
        return resnet50

    def outputs(self, network, batch):
        """Return the network's logits for the images of a micro-batch: a tuple of one tensor, (B, classes).

        `network` is what `build` returned. `batch` is a dict from input name to tensor of the graph, of which `image`
        is read: (B, H, W, 3) in the layout `nhwc`, (B, 3, H, W) in `nchw`.
        """
        return (network(self.weights, tf.cast(batch["image"], self.dtype)),)

    def loss(self, outputs, batch):
        """Return the cross entropy with label smoothing, the mean over the micro-batch: a float32 scalar.

        For a sample it is (1 - ε) · (-log p[label]) + ε · mean over the classes of -log p; ε is the model's option
        `label_smoothing`. `outputs` is a tuple of one tensor, the logits (B, classes). `batch` is a dict from input
        name to tensor; its `label` holds the indices of the classes, (B,).
        """
        smoothing = self.request.model_options["label_smoothing"]
        minus_log = -tf.nn.log_softmax(outputs[0])
        per_sample = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=batch["label"], logits=outputs[0])
        return tf.reduce_mean((1.0 - smoothing) * per_sample + smoothing * tf.reduce_mean(minus_log, -1))
