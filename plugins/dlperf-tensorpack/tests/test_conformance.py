"""tensorpack is held to what every framework's plugin is held to, in the environment that users run in."""

from dlperf_sdk.testing import FrameworkConformance


class TestTensorpack(FrameworkConformance):
    framework = "tensorpack"
    models = ("resnet50",)
