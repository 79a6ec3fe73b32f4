"""oneflow is held to what every framework's plugin is held to, in the environment that users run in."""

from typing import ClassVar

from dlperf_sdk.testing import FrameworkConformance
from dlperf_sdk.testing.subject import SMALL


class TestOneFlow(FrameworkConformance):
    framework = "oneflow"
    models = ("resnet50", "bert-base")
    # A smaller BERT keeps Python busy for longer than OneFlow's threads: nothing would be left to wait for.
    model_options: ClassVar = {
        "bert-base": {
            **SMALL["bert-base"],
            "sequence_length": 128,
            "hidden_size": 256,
            "intermediate_size": 1024,
        }
    }
