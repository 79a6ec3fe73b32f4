"""Campaigns that measure again what a source published. Registered in the group `dlperf_sdk.presets`."""

from pathlib import Path

DLPERF_V1 = Path(__file__).with_name("dlperf-v1.yaml")
"""The matrix of DLPerf's report v1.0."""
TF_CNN_2017 = Path(__file__).with_name("tf-cnn-2017.yaml")
"""The sizes of TensorFlow's CNN benchmarks of 2017."""
TENSORPACK_2017 = Path(__file__).with_name("tensorpack-2017.yaml")
"""tensorpack's comparison with TensorFlow's CNN benchmarks of September 2017."""
