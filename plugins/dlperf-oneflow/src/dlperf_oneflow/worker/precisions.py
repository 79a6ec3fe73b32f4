"""Define each precision for OneFlow."""

import oneflow as flow

from dlperf_sdk.worker.precision import Precision

PRECISIONS = {"fp32": Precision(flow.float32, flow.float32)}
