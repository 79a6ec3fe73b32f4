"""jax is held to what every framework's plugin is held to, in the environment that users run in."""

from dlperf_sdk.testing import FrameworkConformance


class TestJax(FrameworkConformance):
    framework = "jax"
    # Strategies are tried with the first: XLA compiles BERT in seconds.
    models = ("bert-base", "resnet50")
