"""Inception v3: the conformance of models, published sizes, and images that the auxiliary head cannot take."""

from typing import ClassVar

import pytest
from dlperf_models_2017.inception_v3 import InceptionV3, InceptionV3Options

from dlperf_sdk.errors import SpecError
from dlperf_sdk.testing import ModelConformance


class TestInceptionV3(ModelConformance):
    model = "inception-v3"
    model_options: ClassVar = {"image_size": 107, "num_classes": 10}


def test_published_sizes():
    """Keras's network, which has no gamma either; the heads and norms of torchvision's, less its gammas."""
    model = InceptionV3()
    assert model.parameter_count(InceptionV3Options()) == 23_817_352
    assert model.parameter_count(InceptionV3Options(auxiliary=True)) == 27_161_264 - 17_216 - (128 + 768)
    shapes = [parameter.shape for parameter in model.parameters(InceptionV3Options())]
    assert sum(len(shape) == 4 for shape in shapes) == 94


@pytest.mark.parametrize(
    ("size", "grids"), [(299, (149, 147, 147, 73, 71, 35, 17, 8)), (107, (53, 51, 51, 25, 23, 11, 5, 2))]
)
def test_the_sizes_of_the_layers(size, grids):
    """As tf_cnn_benchmarks notes them beside its layers."""
    sizes = {sized.name: sized.size for sized in InceptionV3Options(image_size=size).convolutions}
    names = ("stem.0", "stem.1", "stem.2", "stem.4", "stem.5", "mixed.0.0.0", "mixed.4.0.0", "mixed.10.0.0")
    assert tuple(sizes[name] for name in names) == grids


def test_the_arithmetic_is_what_was_published():
    """5.7 billion multiply-accumulates in the forward pass, of which the first layer's need no gradient."""
    terms = InceptionV3().flops(InceptionV3Options())
    assert sum(term.macs for term in terms) == 5_713_216_096
    assert [term.name for term in terms if term.passes == 2] == [terms[0].name]
    assert InceptionV3().flops_per_sample(InceptionV3Options()) == 34_240_933_248


@pytest.mark.parametrize(("size", "fits"), [(298, False), (299, True), (346, True), (347, False)])
def test_the_auxiliary_head_needs_an_image_that_leaves_it_5_by_5_positions(size, fits):
    if fits:
        assert InceptionV3Options(image_size=size, auxiliary=True).auxiliary
    else:
        with pytest.raises(SpecError, match="299 to 346"):
            InceptionV3Options(image_size=size, auxiliary=True)
