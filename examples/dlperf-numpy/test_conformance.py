"""All that it takes to test a plugin: `pytest test_conformance.py`."""

from dlperf_sdk.testing import FrameworkConformance, ModelConformance


class TestNumPy(FrameworkConformance):
    framework = "numpy"


class TestLinear(ModelConformance):
    model = "linear"


class TestSoftmax(ModelConformance):
    model = "softmax"
