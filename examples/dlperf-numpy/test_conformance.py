"""Test the NumPy plugin: `pytest examples/dlperf-numpy`, or `dlperf check numpy`."""

from dlperf_sdk.testing import FrameworkConformance


class TestNumPy(FrameworkConformance):
    """The conformance suite for the NumPy plugin."""

    framework = "numpy"
