"""Define each precision for TensorFlow."""

import tensorflow as tf

from dlperf_sdk.worker.precision import Precision

PRECISIONS = {
    "fp32": Precision(tf.float32, tf.float32),
    "tf32": Precision(tf.float32, tf.float32, tf32=True),
    "amp-fp16": Precision(tf.float32, tf.float16),
    "amp-bf16": Precision(tf.float32, tf.bfloat16),
    "fp16": Precision(tf.float16, tf.float16),
}
