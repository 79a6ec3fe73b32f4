"""Define each precision for MegEngine, by the names of NumPy's types, which MegEngine's tensors have."""

import numpy as np

from dlperf_sdk.worker.precision import Precision

FLOAT32 = np.dtype("float32")
PRECISIONS = {"fp32": Precision(FLOAT32, FLOAT32)}
