"""The precisions that the plugin supports on some device, for both halves."""

from dlperf_sdk.worker.precision import Precision

PRECISIONS = {
    "fp32": Precision("float32", "float32"),
    "amp-fp16": Precision("float32", "float16"),
    "amp-bf16": Precision("float32", "bfloat16"),
    "fp16": Precision("float16", "float16"),
}
