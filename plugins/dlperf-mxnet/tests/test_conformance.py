"""mxnet is held to what every framework's plugin is held to, in the environment that users run in."""

from typing import ClassVar

from dlperf_sdk.harness.in_process import SMALL
from dlperf_sdk.testing import FrameworkConformance


class TestMXNet(FrameworkConformance):
    framework = "mxnet"
    # Compilers and strategies are tried with the first that does not refuse them: BERT is the quicker one.
    models = ("bert-base", "resnet50")
    # Smaller models keep Python busy for longer than MXNet's engine: nothing would be left to wait for.
    model_options: ClassVar = {
        "resnet50": {**SMALL["resnet50"], "image_size": 64},
        "bert-base": {
            **SMALL["bert-base"],
            "sequence_length": 128,
            "hidden_size": 256,
            "intermediate_size": 1024,
        },
    }
