"""Inception v3 in TensorFlow, built from the tables of `inception_v3`; the names of its variables are the manifest's.

Every layer computes in the type of what it is given.
"""

import tensorflow as tf
from dlperf_tensorflow.worker.training import TensorFlowTrainer

from dlperf_models_2017.worker.inception_v3 import (
    AUXILIARY,
    AUXILIARY_INPUT,
    AUXILIARY_WEIGHT,
    BATCH_NORM_EPSILON,
    BATCH_NORM_MOMENTUM,
    MIXED,
    STEM,
    Pool,
    Split,
)


class Convolution(tf.Module):
    """A convolution without bias, followed by batch norm without gamma and by ReLU.

    Batch norm uses the statistics of this replica's micro-batch. `weights` are the `Weights` of the network, `name` is
    the layer's name in the manifest, and `layer` is a `Convolution` of `inception_v3`.

    Raises:
        ManifestError: The manifest has no such layer.
    """

    def __init__(self, weights, name, layer):
        super().__init__()
        self.layout, self.stride = weights.layout, layer.stride
        # All padded layers have the stride 1, with which "SAME" is half the kernel on all sides.
        self.padding = "SAME" if layer.is_padded else "VALID"
        self.weight = weights(name + ".conv.weight", (2, 3, 1, 0))
        self.shift = weights(name + ".norm.bias", is_wide=True)
        channels = self.shift.shape
        self.running_mean = weights.statistic(name + ".norm.running_mean", tf.zeros(channels))
        self.running_variance = weights.statistic(name + ".norm.running_var", tf.ones(channels))

    def __call__(self, x):
        kernel = tf.cast(self.weight, x.dtype)
        x = tf.nn.conv2d(x, kernel, self.stride, self.padding, data_format=self.layout)
        y, mean, variance, *_ = tf.raw_ops.FusedBatchNormV3(
            x=x,
            scale=tf.ones(self.shift.shape),
            offset=self.shift,
            mean=self.running_mean,
            variance=self.running_variance,
            epsilon=BATCH_NORM_EPSILON,
            exponential_avg_factor=BATCH_NORM_MOMENTUM,
            is_training=True,
            data_format=self.layout,
        )
        self.running_mean.assign(mean)
        self.running_variance.assign(variance)
        return tf.nn.relu(y)


class Pooling(tf.Module):
    """A 3×3 pool: unpadded with stride 2, padded by one on all sides with stride 1. An average ignores padding.

    `layout` is `NCHW` or `NHWC`, and `layer` a `Pool` of `inception_v3`.
    """

    def __init__(self, layout, layer):
        super().__init__()
        self.layout, self.stride = layout, layer.stride
        self.function = tf.nn.avg_pool2d if layer.kind == "average" else tf.nn.max_pool2d

    def __call__(self, x):
        padding = "SAME" if self.stride == 1 else "VALID"
        return self.function(x, 3, self.stride, padding, data_format=self.layout)


class Concatenation(tf.Module):
    """Modules with the same input, whose outputs are concatenated along the channels.

    `layout` is `NCHW` or `NHWC`, and `branches` is an iterable of the modules.
    """

    def __init__(self, layout, branches):
        super().__init__()
        self.axis = layout.index("C")
        self.branches = list(branches)

    def __call__(self, x):
        return tf.concat([branch(x) for branch in self.branches], self.axis)


class Branch(tf.Module):
    """The layers of a branch of `inception_v3`, one after another.

    `weights` are the `Weights` of the network, `name` is the branch's name in the manifest, such as `mixed.0.1`, and
    `layers` is a tuple of `Convolution`, `Pool` and `Split` of `inception_v3`.

    Raises:
        ManifestError: The manifest lacks a parameter of the branch.
    """

    def __init__(self, weights, name, layers):
        super().__init__()
        self.layers = [build_layer(weights, "%s.%d" % (name, i), layer) for i, layer in enumerate(layers)]

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def build_layer(weights, name, layer):
    """Return the `tf.Module` for `layer`, a `Convolution`, `Pool` or `Split` of `inception_v3`.

    The module is called with images, a tensor in the layout of `weights`, and returns images in that layout. `weights`
    are the `Weights` of the network, and `name` is the layer's name in the manifest.

    Raises:
        ManifestError: The manifest lacks a parameter of the layer.
    """
    if isinstance(layer, Split):
        parts = (Convolution(weights, "%s.%d" % (name, i), part) for i, part in enumerate(layer))
        return Concatenation(weights.layout, parts)
    if isinstance(layer, Pool):
        return Pooling(weights.layout, layer)
    return Convolution(weights, name, layer)


class InceptionV3(tf.Module):
    """Inception v3: the stem, eleven modules, the mean over positions, a linear layer, and perhaps the auxiliary head.

    `weights` are the `Weights` of the network, and `auxiliary` is True for the auxiliary head.

    Raises:
        ManifestError: The manifest lacks a parameter of the network.
    """

    def __init__(self, weights, auxiliary):
        super().__init__()
        self.layout = weights.layout
        self.stem = Branch(weights, "stem", STEM)
        self.mixed = [
            Concatenation(
                self.layout, (Branch(weights, "mixed.%d.%d" % (i, j), b) for j, b in enumerate(module))
            )
            for i, module in enumerate(MIXED)
        ]
        self.auxiliary = Branch(weights, "auxiliary", AUXILIARY) if auxiliary else None
        names = ("fc", "auxiliary_fc") if auxiliary else ("fc",)
        self.heads = [(weights(name + ".weight", (1, 0)), weights(name + ".bias")) for name in names]

    def __call__(self, x):
        """Return the logits of each head, (B, classes), the main head first.

        Images are (B, 3, H, W) in the layout `NCHW`, (B, H, W, 3) in `NHWC`.
        """
        x, features = self.stem(x), []
        for index, module in enumerate(self.mixed):
            x = module(x)
            if self.auxiliary is not None and index == AUXILIARY_INPUT:
                pooled = tf.nn.avg_pool2d(x, 5, 3, "VALID", data_format=self.layout)
                features = [self._mean(self.auxiliary(pooled))]
        features = [self._mean(x), *features]
        return [
            tf.matmul(value, tf.cast(weight, value.dtype)) + tf.cast(bias, value.dtype)
            for value, (weight, bias) in zip(features, self.heads)
        ]

    def _mean(self, x):
        return tf.reduce_mean(x, (1, 2) if self.layout == "NHWC" else (2, 3))


class InceptionV3Trainer(TensorFlowTrainer):
    """The trainer of Inception v3: classifies images. The loss is the cross entropy of both heads."""

    def build(self, options):
        """Return the network, an `InceptionV3`: called with images, it returns a list of the logits of each head.

        `options` is a dict with the values of the model's options, of which `auxiliary` is read. The manifest's shapes
        give the number of classes.

        Raises:
            ManifestError: The manifest lacks a parameter of the network.
        """
        return InceptionV3(self.weights, options["auxiliary"])

    def outputs(self, network, batch):
        """Return the network's logits for the images of a micro-batch: a list of one tensor per head, (B, classes).

        The main head is the first. `network` is what `build` returned. `batch` is a dict from input name to tensor, on
        the device, of which `image` is read.
        """
        return network(tf.cast(batch["image"], self.dtype))

    def loss(self, outputs, batch):
        """Return the loss of the main head plus 0.4 × that of the auxiliary head, if there is one: a float32 scalar.

        The loss of a head is the cross entropy with label smoothing, the mean over the micro-batch; the model's option
        `label_smoothing` is the share of the target that is spread over all classes. `outputs` is a sequence of the
        logits of each head, (B, classes), the main head's first. `batch` is a dict from input name to tensor; its
        `label` holds the indices of the classes, (B,).
        """
        losses = [self._cross_entropy(logits, batch["label"]) for logits in outputs]
        return losses[0] + sum(AUXILIARY_WEIGHT * loss for loss in losses[1:])

    def _cross_entropy(self, logits, labels):
        smoothing = self.request.model_options["label_smoothing"]
        minus_log = -tf.nn.log_softmax(tf.cast(logits, tf.float32))
        per_sample = tf.gather(minus_log, labels, batch_dims=1)
        return tf.reduce_mean((1.0 - smoothing) * per_sample + smoothing * tf.reduce_mean(minus_log, -1))
