"""Inception v3 in TensorFlow 1, built from the tables of `inception_v3`; the names of parameters are the manifest's."""

import tensorflow.compat.v1 as tf
from dlperf_tensorflow1.worker.resnet50 import ResNet50Trainer, batch_norm, spatial

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


def convolve(weights, name, layer, x):
    """Return the output of a layer for x: a convolution without bias, batch norm without gamma, and ReLU.

    `weights` are the `Weights` of the network, `name` is the layer's name in the manifest, `layer` is a `Convolution`
    of `inception_v3`, and x is a tensor of images in the layout of `weights`, which the output has, too.

    Raises:
        ManifestError: The manifest has no such layer.
    """
    kernel = tf.cast(weights(name + ".conv.weight", (2, 3, 1, 0)), x.dtype)
    # All padded layers have the stride 1, with which "SAME" is half the kernel on all sides.
    padding = "SAME" if layer.is_padded else "VALID"
    strides = spatial(weights.layout, layer.stride, 1)
    x = tf.nn.conv2d(x, kernel, strides, padding, data_format=weights.layout)
    gamma = tf.ones((layer.outputs,))
    return tf.nn.relu(batch_norm(weights, name + ".norm", x, gamma, BATCH_NORM_EPSILON, BATCH_NORM_MOMENTUM))


def pool(layout, kind, x, size, stride, padding):
    """Return the average or the maximum of x over windows; an average ignores padding.

    Args:
        layout: `NCHW` or `NHWC`.
        kind: `average` or `max`.
        x: The images, a tensor in this layout.
        size: Height and width of a window in pixels.
        stride: Step of the windows in both directions, in pixels.
        padding: `SAME` or `VALID`, TensorFlow's padding.
    """
    function = tf.nn.avg_pool if kind == "average" else tf.nn.max_pool
    return function(x, spatial(layout, size, 1), spatial(layout, stride, 1), padding, data_format=layout)


def concatenate(weights, parts):
    """Return the tensors in `parts`, an iterable, joined along their channels.

    `weights` are the `Weights` of the network, whose `layout` says which axis has the channels.
    """
    return tf.concat(list(parts), weights.layout.index("C"))


def _apply_layer(weights, name, layer, x):
    """Return the output of one entry of a table for x; `name` is the layer's in the manifest."""
    if isinstance(layer, Split):
        return concatenate(
            weights, (convolve(weights, "%s.%d" % (name, i), part, x) for i, part in enumerate(layer))
        )
    if isinstance(layer, Pool):
        return pool(weights.layout, layer.kind, x, 3, layer.stride, "SAME" if layer.stride == 1 else "VALID")
    return convolve(weights, name, layer, x)


def _apply_branch(weights, name, layers, x):
    """Return the output of a table's branch for x; `name` is the branch's in the manifest."""
    for i, layer in enumerate(layers):
        x = _apply_layer(weights, "%s.%d" % (name, i), layer, x)
    return x


def inception_v3(weights, x, auxiliary):
    """Return the logits of each head, a list of tensors (B, classes), the main head's first.

    The layers are the stem, eleven modules, the mean over positions, a linear layer; with `auxiliary`, the auxiliary
    head as well.

    Args:
        weights: The `Weights` of the network.
        x: Images, (B, 3, H, W) in the layout `NCHW`, (B, H, W, 3) in `NHWC`.
        auxiliary: True for the auxiliary head.

    Raises:
        ManifestError: The manifest lacks a parameter of the network.
    """
    x, heads = _apply_branch(weights, "stem", STEM, x), []
    for index, module in enumerate(MIXED):
        x = concatenate(
            weights,
            (
                _apply_branch(weights, "mixed.%d.%d" % (index, i), layers, x)
                for i, layers in enumerate(module)
            ),
        )
        if auxiliary and index == AUXILIARY_INPUT:
            pooled = pool(weights.layout, "average", x, 5, 3, "VALID")
            heads = [
                _classify(weights, "auxiliary_fc", _apply_branch(weights, "auxiliary", AUXILIARY, pooled))
            ]
    return [_classify(weights, "fc", x), *heads]


def _classify(weights, name, x):
    """Return the logits, (B, classes): a linear layer of the mean of x over positions."""
    features = tf.reduce_mean(x, (1, 2) if weights.layout == "NHWC" else (2, 3))
    weight, bias = weights(name + ".weight", (1, 0)), weights(name + ".bias")
    return tf.matmul(features, tf.cast(weight, x.dtype)) + tf.cast(bias, x.dtype)


class InceptionV3Trainer(ResNet50Trainer):
    """The trainer of Inception v3: classifies images. The loss is the cross entropy of both heads."""

    def build(self, options):
        """Return the network, a function of the `Weights` and a tensor of images.

        The function returns the logits of each head, a list of tensors (B, classes), the main head's first. `options`
        is a dict with the values of the model's options, of which `auxiliary` is read. The manifest's shapes give the
        number of classes.
        """
        return lambda weights, x: inception_v3(weights, x, options["auxiliary"])

    def outputs(self, network, batch):
        """Return the network's logits for the images of a micro-batch: a list of one tensor per head, (B, classes).

        The main head is the first. `network` is what `build` returned. `batch` is a dict from input name to tensor of
        the graph, of which `image` is read.
        """
        return network(self.weights, tf.cast(batch["image"], self.dtype))

    def loss(self, outputs, batch):
        """Return the loss of the main head plus 0.4 × that of the auxiliary head, if there is one: a float32 scalar.

        The loss of a head is the cross entropy with label smoothing, the mean over the micro-batch; the model's option
        `label_smoothing` is the share of the target that is spread over all classes. `outputs` is a sequence of the
        logits of each head, (B, classes), the main head's first. `batch` is a dict from input name to tensor; its
        `label` holds the indices of the classes, (B,).
        """
        cross_entropy = super().loss
        losses = [cross_entropy((logits,), batch) for logits in outputs]
        return losses[0] + sum(AUXILIARY_WEIGHT * loss for loss in losses[1:])
