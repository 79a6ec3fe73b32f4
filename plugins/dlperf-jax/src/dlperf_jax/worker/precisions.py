"""Define each precision for JAX."""

import jax.numpy as jnp

from dlperf_sdk.worker.precision import Precision

FLOAT32, FLOAT16, BFLOAT16 = jnp.dtype("float32"), jnp.dtype("float16"), jnp.dtype("bfloat16")

PRECISIONS = {
    "fp32": Precision(FLOAT32, FLOAT32),
    "tf32": Precision(FLOAT32, FLOAT32, tf32=True),
    "amp-fp16": Precision(FLOAT32, FLOAT16),
    "amp-bf16": Precision(FLOAT32, BFLOAT16),
    "fp16": Precision(FLOAT16, FLOAT16),
}
