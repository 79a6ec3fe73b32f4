"""Mixed precision by MXNet's own `contrib.amp`, which replaces the operators of this process permanently."""

import mxnet as mx
from mxnet.contrib import amp
from mxnet.contrib.amp.amp import bfloat16 as BFLOAT16

from dlperf_sdk.worker.unsupported import Unsupported


def switch_on(precision):
    """Make MXNet's operators cast their inputs in this process, as `contrib.amp` defines for a precision.

    This cannot be undone. `precision` is a `dlperf_sdk.worker.precision.Precision`; if it casts nothing, do nothing.

    Raises:
        Unsupported: The precision needs bfloat16, which oneDNN does not support on this processor.
    """
    if not precision.casts:
        return
    if precision.products == "bfloat16":
        _try_bfloat16()
    amp.init(target_dtype=precision.products)


def _try_bfloat16():
    """Try a product in bfloat16: oneDNN in MXNet's wheel has it for AVX-512 and what came after."""
    matrix = mx.nd.ones((16, 16))
    try:
        narrow = mx.nd.amp_cast(matrix, dtype=BFLOAT16)
        mx.nd.FullyConnected(narrow, narrow, num_hidden=16, no_bias=True).wait_to_read()
    except mx.MXNetError as error:
        raise Unsupported(
            "MXNet %s cannot compute in bfloat16 on this processor, which takes AVX-512 (%s); choose fp32"
            % (mx.__version__, str(error).strip().splitlines()[-1])
        ) from error
