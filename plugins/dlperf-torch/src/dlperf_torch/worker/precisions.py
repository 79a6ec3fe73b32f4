"""Define each precision for torch."""

import torch

from dlperf_sdk.worker.precision import Precision

PRECISIONS = {
    "fp32": Precision(torch.float32, torch.float32),
    "tf32": Precision(torch.float32, torch.float32, tf32=True),
    "amp-fp16": Precision(torch.float32, torch.float16),
    "amp-bf16": Precision(torch.float32, torch.bfloat16),
    "fp16": Precision(torch.float16, torch.float16),
}
