"""All that it takes to test the plugin: `pytest examples/dlperf-numpy`, or `dlperf check numpy`."""

from dlperf_sdk.testing import FrameworkConformance


class TestNumPy(FrameworkConformance):
    framework = "numpy"
