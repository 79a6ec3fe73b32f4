"""The layers of Inception v3 as tables. The manifest, the FLOPs and the trainers are built from them.

Both halves import this module: it needs the standard library only. Names of layers are positions in the tables:
`mixed.8.1.2` is the third layer of the second branch of the ninth module.
"""

from typing import Iterator, NamedTuple, Tuple, Union

BATCH_NORM_EPSILON = 1e-3
BATCH_NORM_MOMENTUM = 0.001
"""Share of a micro-batch's statistics in the running statistics."""
AUXILIARY_WEIGHT = 0.4
"""Factor of the auxiliary head's loss."""


class Convolution(NamedTuple):
    """A layer of a branch: a convolution without bias, followed by batch norm without gamma and by ReLU.

    `outputs` is the number of output channels; `height` and `width` are those of the kernel, in pixels.
    """

    outputs: int
    height: int = 1
    width: int = 1
    stride: int = 1
    is_padded: bool = True
    """True if zeros pad each side by half the kernel's size, rounded down; False for no padding."""


class Pool(NamedTuple):
    """A layer of a branch: a 3×3 pool, unpadded with stride 2, padded by one on all sides with stride 1.

    An average ignores padding.
    """

    kind: str
    """`max` or `average`."""
    stride: int = 1


class Split(NamedTuple):
    """A layer of a branch: two convolutions of one input, whose outputs are concatenated along the channels."""

    first: Convolution
    second: Convolution


Layer = Union[Convolution, Pool, Split]
Branch = Tuple[Layer, ...]
Module = Tuple[Branch, ...]
"""Branches with the same input, whose outputs are concatenated along the channels."""

AVERAGE, MAX = Pool("average"), Pool("max", 2)


def _halving(outputs: int) -> Convolution:
    return Convolution(outputs, 3, 3, 2, False)


def _module_a(outputs: int) -> Module:
    double = (Convolution(64), Convolution(96, 3, 3), Convolution(96, 3, 3))
    return (
        (Convolution(64),),
        (Convolution(48), Convolution(64, 5, 5)),
        double,
        (AVERAGE, Convolution(outputs)),
    )


def _module_c(width: int) -> Module:
    across, down = Convolution(width, 1, 7), Convolution(width, 7, 1)
    return (
        (Convolution(192),),
        (Convolution(width), across, Convolution(192, 7, 1)),
        (Convolution(width), down, across, down, Convolution(192, 1, 7)),
        (AVERAGE, Convolution(192)),
    )


def _module_e(pool: Pool) -> Module:
    split = Split(Convolution(384, 1, 3), Convolution(384, 3, 1))
    return (
        (Convolution(320),),
        (Convolution(384), split),
        (Convolution(448), Convolution(384, 3, 3), split),
        (pool, Convolution(192)),
    )


STEM: Branch = (
    _halving(32),
    Convolution(32, 3, 3, 1, False),
    Convolution(64, 3, 3),
    MAX,
    Convolution(80),
    Convolution(192, 3, 3, 1, False),
    MAX,
)
MIXED: Tuple[Module, ...] = (
    _module_a(32),
    _module_a(64),
    _module_a(64),
    ((_halving(384),), (Convolution(64), Convolution(96, 3, 3), _halving(96)), (MAX,)),
    _module_c(128),
    _module_c(160),
    _module_c(160),
    _module_c(192),
    (
        (Convolution(192), _halving(320)),
        (Convolution(192), Convolution(192, 1, 7), Convolution(192, 7, 1), _halving(192)),
        (MAX,),
    ),
    _module_e(AVERAGE),
    _module_e(Pool("max")),
)
AUXILIARY_INPUT = 7
"""Index of the module whose output the auxiliary head takes."""
AUXILIARY: Branch = (Convolution(128), Convolution(768, 5, 5, 1, False))
"""The auxiliary head after its average pool of 5×5 with stride 3, unpadded, which must leave 5×5 positions."""
FEATURES = 2048
"""Input features of the linear layer `fc`."""
AUXILIARY_FEATURES = 768
"""Input features of the linear layer `auxiliary_fc`."""


class SizedConvolution(NamedTuple):
    """A convolution of the network for one size of images."""

    name: str
    convolution: Convolution
    inputs: int
    """Number of input channels."""
    size: int
    """Height and width of the output."""


def list_convolutions(image_size: int, auxiliary: bool) -> Iterator[SizedConvolution]:
    """Yield all convolutions in the order of the forward pass; the auxiliary head's, if any, are the last.

    `image_size` is the height and width of an image in pixels, and `auxiliary` is True for the auxiliary head.
    """
    channels, size = 3, image_size
    auxiliary_input = (0, 0)
    yield from _list_branch("stem", STEM, channels, size)
    channels, size = _output_shape(STEM, channels, size)
    for index, module in enumerate(MIXED):
        for branch, layers in enumerate(module):
            yield from _list_branch("mixed.%d.%d" % (index, branch), layers, channels, size)
        shapes = [_output_shape(layers, channels, size) for layers in module]
        channels, size = sum(outputs for outputs, _ in shapes), shapes[0][1]
        if index == AUXILIARY_INPUT:
            auxiliary_input = channels, (size - 5) // 3 + 1
    if auxiliary:
        yield from _list_branch("auxiliary", AUXILIARY, *auxiliary_input)


def _list_branch(prefix: str, layers: Branch, channels: int, size: int) -> Iterator[SizedConvolution]:
    for index, layer in enumerate(layers):
        name = "%s.%d" % (prefix, index)
        outputs, output_size = _output_shape((layer,), channels, size)
        if isinstance(layer, Split):
            for part, convolution in enumerate(layer):
                yield SizedConvolution("%s.%d" % (name, part), convolution, channels, output_size)
        elif isinstance(layer, Convolution):
            yield SizedConvolution(name, layer, channels, output_size)
        channels, size = outputs, output_size


def _output_shape(layers: Branch, channels: int, size: int) -> Tuple[int, int]:
    """Return the channels and the side length of the output of some layers, from those of their input."""
    for layer in layers:
        if isinstance(layer, Split):
            channels = layer.first.outputs + layer.second.outputs
        elif isinstance(layer, Pool):
            size = (size - 3) // 2 + 1 if layer.stride == 2 else size
        else:
            channels = layer.outputs
            size = size if layer.is_padded else (size - layer.height) // layer.stride + 1
    return channels, size
