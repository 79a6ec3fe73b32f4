"""megengine is held to what every framework's plugin is held to, in the environment that users run in."""

from dlperf_sdk.testing import FrameworkConformance


class TestMegEngine(FrameworkConformance):
    framework = "megengine"
    # Strategies are tried with the first: convolutions are slow on a CPU.
    models = ("bert-base", "resnet50")
