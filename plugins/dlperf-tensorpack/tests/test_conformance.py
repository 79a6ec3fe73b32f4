"""tensorpack is held to what every framework's plugin is held to, in the environment that users run in."""

from dlperf_sdk.testing import FrameworkConformance


class TestTensorpack(FrameworkConformance):
    framework = "tensorpack"
    # Strategies are tried with the first: ResNet-50's graph takes longer to build and to optimize.
    models = ("bert-base", "resnet50")
