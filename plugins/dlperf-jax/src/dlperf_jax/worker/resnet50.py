"""ResNet-50 v1.5 in JAX: He et al. 2016, table 1, with the stride of a bottleneck in its 3×3 convolution.

What is computed is laid down in `dlperf_sdk.models.resnet50`; the names are the manifest's. Images are NHWC and
kernels HWIO. Every layer computes in the type of what it is given, but batch norm in float32.
"""

import jax
import jax.numpy as jnp
from jax import lax
from jax.nn import relu

from dlperf_jax.worker.scope import linear
from dlperf_jax.worker.training import JaxTrainer
from dlperf_sdk.worker.architectures import BATCH_NORM_EPSILON, BATCH_NORM_MOMENTUM, STAGES


def convolution(scope, name, x, stride=1):
    """Return the output, (B, H', W', outputs), of a convolution without bias for x, (B, H, W, inputs).

    Zeros pad each side by half the kernel's size, rounded down.

    Args:
        scope: The network's weights, a `Scope`. The kernel in it is HWIO, and is cast to x's type.
        name: The layer's name in the manifest.
        x: The images.
        stride: Step of the kernel in both directions, in pixels; H' and W' are ⌈H / stride⌉ and ⌈W / stride⌉.

    Raises:
        ManifestError: The manifest has no such layer.
    """
    kernel = scope[name + ".weight"].astype(x.dtype)
    pad = kernel.shape[0] // 2
    return lax.conv_general_dilated(
        x, kernel, (stride, stride), [(pad, pad), (pad, pad)], dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def batch_norm(scope, name, x):
    """Return the batch norm of x, (B, H, W, C), in the shape and type of x.

    `name` is the layer's name in the manifest. The layer uses the statistics of this replica's micro-batch, in float32.
    `scope`, a `Scope`, holds the layer's weights and running statistics; the latter are updated.

    Raises:
        ManifestError: The manifest has no such layer.
    """
    values = x.astype(jnp.float32)
    mean = values.mean((0, 1, 2))
    variance = jnp.square(values - mean).mean((0, 1, 2))
    scope.move_statistic(name + ".running_mean", 0.0, mean, BATCH_NORM_MOMENTUM)
    scope.move_statistic(name + ".running_var", 1.0, variance, BATCH_NORM_MOMENTUM)
    scale = scope[name + ".weight"] * lax.rsqrt(variance + BATCH_NORM_EPSILON)
    return ((values - mean) * scale + scope[name + ".bias"]).astype(x.dtype)


def bottleneck(scope, name, x, stride, projects):
    """Return the output of a residual block: (B, H, W, inputs) → (B, ⌈H / stride⌉, ⌈W / stride⌉, 4 × width).

    The block has convolutions of 1×1, 3×3 and 1×1, each with batch norm, and the shortcut around them.

    Args:
        scope: The network's weights and running statistics, a `Scope`, in which the running statistics are updated.
        name: The block's name in the manifest, such as `layer1.0`; the weights give the channels.
        x: The images.
        stride: Stride of the 3×3 convolution.
        projects: True if the shortcut is a 1×1 convolution of this stride, with batch norm.

    Raises:
        ManifestError: The manifest lacks a parameter of the block.
    """
    shortcut = x
    if projects:
        shortcut = convolution(scope, name + ".downsample.0", x, stride)
        shortcut = batch_norm(scope, name + ".downsample.1", shortcut)
    x = relu(batch_norm(scope, name + ".bn1", convolution(scope, name + ".conv1", x)))
    x = relu(batch_norm(scope, name + ".bn2", convolution(scope, name + ".conv2", x, stride)))
    x = batch_norm(scope, name + ".bn3", convolution(scope, name + ".conv3", x))
    return relu(x + shortcut)


def max_pool(x):
    """Return the maxima of x over windows of 3×3 with stride 2: (B, H, W, C) → (B, ⌈H / 2⌉, ⌈W / 2⌉, C).

    Each side is padded by one with -∞.
    """
    padding = ((0, 0), (1, 1), (1, 1), (0, 0))
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), padding)


def resnet50(scope, images):
    """Return the logits, (B, classes), of images, (B, H, W, 3), in the type `scope.dtype`.

    The network casts the images to that type, and computes in it. It is a 7×7 convolution, a max-pool, four stages of
    bottlenecks, the mean over positions, a linear layer. `scope`, a `Scope`, holds the network's weights and running
    statistics; the latter are updated.

    Raises:
        ManifestError: The manifest lacks a parameter of the network.
    """
    x = convolution(scope, "conv1", images.astype(scope.dtype), stride=2)
    x = max_pool(relu(batch_norm(scope, "bn1", x)))
    for stage, (_, blocks) in enumerate(STAGES, start=1):
        for block in range(blocks):
            stride = 2 if stage > 1 and block == 0 else 1
            x = bottleneck(scope, "layer%d.%d" % (stage, block), x, stride, projects=block == 0)
    return linear(scope, "fc", x.mean((1, 2)))


class ResNet50Trainer(JaxTrainer):
    """The trainer of ResNet-50: classifies images. The loss is the cross entropy with label smoothing."""

    def build(self, options):
        """Return the network: the function `resnet50` of a `Scope` and images, which returns the logits, (B, classes).

        `options` is not used: the weights in the scope determine the number of classes.
        """
        return resnet50

    def outputs(self, network, batch):
        """Return the network's logits for the images of a micro-batch: a tuple of one array, (B, classes).

        `network` is what `build` returned, with the first argument, the `Scope`, already bound. `batch` is a dict
        from input name to array, of which `image`, (B, H, W, 3), is read.
        """
        return (network(batch["image"]),)

    def loss(self, outputs, batch):
        """Return the cross entropy with label smoothing, the mean over the micro-batch: a float32 scalar.

        For a sample it is (1 - ε) · (-log p[label]) + ε · mean over the classes of -log p; ε is the model's option
        `label_smoothing`. `outputs` is a tuple of one array, the logits (B, classes). `batch` is a dict from input name
        to array; its `label` holds the indices of the classes, (B,).
        """
        smoothing = self.request.model_options["label_smoothing"]
        minus_log = -jax.nn.log_softmax(outputs[0].astype(jnp.float32))
        per_sample = jnp.take_along_axis(minus_log, batch["label"][:, None], axis=-1)[:, 0]
        return jnp.mean((1 - smoothing) * per_sample + smoothing * minus_log.mean(-1))
