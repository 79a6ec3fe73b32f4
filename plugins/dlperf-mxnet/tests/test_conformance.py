"""mxnet is held to what every framework's plugin is held to, in the environment that users run in."""

from dlperf_sdk.testing import FrameworkConformance


class TestMXNet(FrameworkConformance):
    framework = "mxnet"
    # Compilers and strategies are tried with the first that does not refuse them: BERT is the quicker one.
    models = ("bert-base", "resnet50")
