"""Mixed precision by MXNet's own `contrib.amp`, which replaces the operators of this process for good."""

import mxnet as mx
from mxnet.contrib import amp
from mxnet.contrib.amp.amp import bfloat16 as BFLOAT16

from dlperf_sdk.worker.interface import Unsupported

TYPES = {"amp-fp16": "float16", "amp-bf16": "bfloat16"}
"""Precision → the type that convolutions and matrix products are computed in; the others do not cast."""


def switch_on(precision):
    """From here on MXNet's operators cast as its lists for this precision say.

    Raises:
        Unsupported: bfloat16 on a processor that oneDNN has none for.
    """
    if precision not in TYPES:
        return
    if precision == "amp-bf16":
        _try_bfloat16()
    amp.init(target_dtype=TYPES[precision])


def _try_bfloat16():
    """A product in bfloat16: oneDNN in MXNet's wheel has it for AVX-512 and what came after."""
    ones = mx.nd.ones((16, 16))
    try:
        narrow = mx.nd.amp_cast(ones, dtype=BFLOAT16)
        mx.nd.FullyConnected(narrow, narrow, num_hidden=16, no_bias=True).wait_to_read()
    except mx.MXNetError as error:
        raise Unsupported(
            "MXNet %s cannot compute in bfloat16 on this processor, which takes AVX-512 (%s); choose fp32"
            % (mx.__version__, str(error).strip().splitlines()[-1])
        ) from error
