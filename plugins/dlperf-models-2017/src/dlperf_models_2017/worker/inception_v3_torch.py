"""Inception v3 in torch, built from the tables of `inception_v3`; the names of its modules are the manifest's."""

import torch
import torch.nn.functional as F
from dlperf_torch.worker.training import TorchTrainer
from torch import nn

from dlperf_models_2017.worker.inception_v3 import (
    AUXILIARY,
    AUXILIARY_FEATURES,
    AUXILIARY_INPUT,
    AUXILIARY_WEIGHT,
    BATCH_NORM_EPSILON,
    BATCH_NORM_MOMENTUM,
    FEATURES,
    MIXED,
    STEM,
    Pool,
    Split,
)


class BatchNorm(nn.BatchNorm2d):
    """Batch norm without gamma for `channels` channels, with the statistics of this replica's micro-batch."""

    def __init__(self, channels):
        super().__init__(channels, eps=BATCH_NORM_EPSILON, momentum=BATCH_NORM_MOMENTUM)
        self.register_parameter("weight", None)
        # torch counts batches for a cumulative average, which a fixed momentum does not use: one kernel less.
        self.num_batches_tracked = None


class Convolution(nn.Module):
    """A convolution without bias, followed by batch norm and ReLU.

    `layer` is a `Convolution` of `inception_v3`. The input has `inputs` channels; the attribute `outputs` is the number
    of output channels.
    """

    def __init__(self, inputs, layer):
        super().__init__()
        kernel = (layer.height, layer.width)
        padding = (layer.height // 2, layer.width // 2) if layer.is_padded else 0
        self.conv = nn.Conv2d(inputs, layer.outputs, kernel, layer.stride, padding, bias=False)
        self.norm = BatchNorm(layer.outputs)
        self.outputs = layer.outputs

    def forward(self, x):
        """Return the layer's output for x: (B, inputs, H, W) → (B, outputs, H', W').

        H' and W' follow from the kernel, the stride and the padding of the layer.
        """
        return F.relu(self.norm(self.conv(x)), inplace=True)


class Concatenation(nn.ModuleList):
    """Modules with the same input, whose outputs are concatenated along the channels.

    The constructor takes an iterable of the modules, each with an attribute `outputs`.
    """

    @property
    def outputs(self):
        """Number of output channels: the sum over the modules."""
        return sum(branch.outputs for branch in self)

    def forward(self, x):
        """Return the outputs of all modules for x, concatenated: (B, inputs, H, W) → (B, outputs, H', W').

        All modules change H and W to the same H' and W'.
        """
        return torch.cat([branch(x) for branch in self], 1)


class Branch(nn.Sequential):
    """The layers of a branch of `inception_v3`, one after another.

    `layers` is a tuple of `Convolution`, `Pool` and `Split` of `inception_v3`. The input has `inputs` channels; the
    attribute `outputs` is the number of output channels.
    """

    def __init__(self, inputs, layers):
        super().__init__()
        self.outputs = inputs
        for layer in layers:
            self.append(build_layer(self.outputs, layer))
            self.outputs = getattr(self[-1], "outputs", self.outputs)


def build_layer(inputs, layer):
    """Return the `nn.Module` for `layer`, a `Convolution`, `Pool` or `Split` of `inception_v3`.

    The module maps images (B, inputs, H, W) to images (B, outputs, H', W'). `inputs` is a number of channels.
    """
    if isinstance(layer, Split):
        return Concatenation(Convolution(inputs, part) for part in layer)
    if not isinstance(layer, Pool):
        return Convolution(inputs, layer)
    if layer.kind == "average":
        return nn.AvgPool2d(3, 1, padding=1, count_include_pad=False)
    return nn.MaxPool2d(3, layer.stride, padding=0 if layer.stride == 2 else 1)


class InceptionV3(nn.Module):
    """Inception v3: the stem, eleven modules, the mean over positions, a linear layer, and perhaps the auxiliary head.

    `classes` is the number of classes, and `auxiliary` is True for the auxiliary head.
    """

    def __init__(self, classes, auxiliary):
        super().__init__()
        self.stem = Branch(3, STEM)
        self.mixed, channels = nn.ModuleList(), self.stem.outputs
        self.auxiliary = None
        for index, module in enumerate(MIXED):
            self.mixed.append(Concatenation(Branch(channels, layers) for layers in module))
            channels = self.mixed[-1].outputs
            if auxiliary and index == AUXILIARY_INPUT:
                self.auxiliary = Branch(channels, AUXILIARY)
                self.auxiliary_fc = nn.Linear(AUXILIARY_FEATURES, classes)
        self.fc = nn.Linear(FEATURES, classes)

    def forward(self, x):
        """Return the logits of the images x, (B, 3, H, W): a tuple of a tensor (B, classes) per head.

        The main head is the first; the auxiliary head, if there is one, is the second. The axes of x are in this order
        in both layouts; `nhwc` is the memory format `channels_last`. The images are cast to the type of the weights.
        """
        x, auxiliary_logits = self.stem(x.to(self.fc.weight.dtype)), ()
        for index, module in enumerate(self.mixed):
            x = module(x)
            if self.auxiliary is not None and index == AUXILIARY_INPUT:
                pooled = F.avg_pool2d(x, 5, 3)
                auxiliary_logits = (self.auxiliary_fc(self.auxiliary(pooled).flatten(1)),)
        return (self.fc(x.mean((2, 3))), *auxiliary_logits)


class InceptionV3Trainer(TorchTrainer):
    """The trainer of Inception v3: classifies images. The loss is the cross entropy of both heads."""

    def build(self, options):
        """Return the network, an `InceptionV3`: called with images, it returns a tuple of the logits of each head.

        `options` is a dict with the values of the model's options, of which `num_classes` and `auxiliary` are read.
        """
        return InceptionV3(options["num_classes"], options["auxiliary"])

    def outputs(self, network, batch):
        """Return the network's logits for the images of a micro-batch: a tuple of one tensor per head, (B, classes).

        The main head is the first. `network` is what `build` returned, or what DistributedDataParallel or the compiler
        made of it. `batch` is a dict from input name to tensor, on the device, of which `image` is read.
        """
        return network(batch["image"])

    def loss(self, outputs, batch):
        """Return the loss of the main head plus 0.4 × that of the auxiliary head, if there is one: a float32 scalar.

        The loss of a head is the cross entropy with label smoothing, the mean over the micro-batch; the model's option
        `label_smoothing` is the share of the target that is spread over all classes. `outputs` is a sequence of the
        logits of each head, (B, classes), the main head's first. `batch` is a dict from input name to tensor; its
        `label` holds the indices of the classes, (B,).
        """
        smoothing = self.request.model_options["label_smoothing"]
        losses = [F.cross_entropy(logits, batch["label"], label_smoothing=smoothing) for logits in outputs]
        return losses[0] + sum(AUXILIARY_WEIGHT * loss for loss in losses[1:])
