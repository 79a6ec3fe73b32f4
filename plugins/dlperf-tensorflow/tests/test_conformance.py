"""TensorFlow is held to what every framework's plugin is held to, in the environment that users run in."""

from dlperf_sdk.testing import FrameworkConformance


class TestTensorFlow(FrameworkConformance):
    framework = "tensorflow"
    # Compilers and strategies are tried with the first that does not refuse them: XLA takes BERT in seconds.
    models = ("bert-base", "resnet50")
