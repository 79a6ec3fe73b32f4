"""Paddle is held to what every framework's plugin is held to, in the environment that users run in."""

from dlperf_sdk.testing import FrameworkConformance


class TestPaddle(FrameworkConformance):
    framework = "paddle"
    models = ("bert-base", "resnet50")
