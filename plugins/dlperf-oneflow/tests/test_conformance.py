"""oneflow is held to what every framework's plugin is held to, in the environment that users run in."""

from typing import ClassVar

from dlperf_sdk.harness.in_process import SMALL
from dlperf_sdk.testing import FrameworkConformance


class TestOneFlow(FrameworkConformance):
    framework = "oneflow"
    models = ("resnet50", "bert-base")
    # Smaller models keep Python busy for longer than OneFlow's threads: nothing would be left to wait for.
    model_options: ClassVar = {
        "resnet50": {**SMALL["resnet50"], "image_size": 64},
        "bert-base": {
            **SMALL["bert-base"],
            "sequence_length": 128,
            "hidden_size": 256,
            "intermediate_size": 1024,
        },
    }
