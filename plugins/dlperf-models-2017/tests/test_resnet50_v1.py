"""ResNet-50 v1: the conformance of models, and its arithmetic against a walk through the network."""

from typing import ClassVar

import pytest
from dlperf_models_2017.resnet50_v1 import ResNet50V1, ResNet50V1Options

from dlperf_sdk.models.resnet50 import ResNet50, ResNet50Options
from dlperf_sdk.testing import ModelConformance


class TestResNet50V1(ModelConformance):
    model = "resnet50-v1"
    model_options: ClassVar = {"image_size": 40, "num_classes": 10}


def macs(size, classes):
    """All multiply-accumulates, by walking through the network."""

    def halved(size):
        return (size + 1) // 2

    size = halved(size)
    total, size, channels = 3 * 7 * 7 * 64 * size**2, halved(size), 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            if block == 0:
                size = halved(size) if stride == 2 else size
                total += channels * 4 * width * size**2
            total += (channels * width + width * width * 9 + width * 4 * width) * size**2
            channels = 4 * width
    return total + channels * classes


@pytest.mark.parametrize(("size", "classes"), [(224, 1000), (225, 3), (64, 10), (97, 7)])
def test_the_arithmetic_is_that_of_the_network(size, classes):
    terms = ResNet50V1().flops(ResNet50V1Options(image_size=size, num_classes=classes))
    assert sum(term.macs for term in terms) == macs(size, classes)
    assert [term.name for term in terms if term.passes == 2] == [terms[0].name]


def test_published_sizes():
    model, options = ResNet50V1(), ResNet50V1Options()
    assert model.parameter_count(options) == 25_557_032
    assert sum(term.macs for term in model.flops(options)) == 3_857_973_248
    assert model.flops_per_sample(options) == 22_911_811_584
    assert model.parameters(options) == ResNet50().parameters(ResNet50Options())


def test_the_recipe_is_the_original_one():
    numbers = ResNet50V1().optimizer(ResNet50V1Options(), 512).numbers
    assert (numbers["momentum"], numbers["weight_decay"]) == (0.9, 1e-4)
    assert (numbers["learning_rate"], numbers["warmup_learning_rate"]) == (0.1, 0.2)
    chosen = ResNet50V1().optimizer(ResNet50V1Options(learning_rate=0.01), 512).numbers
    assert (chosen["learning_rate"], chosen["warmup_learning_rate"]) == (0.01, 0.01)
