"""MindSpore's kinds of device. Those other than the CPU have not been tested yet."""

import mindspore as ms
from mindspore.device_context.ascend import op_precision as ascend
from mindspore.device_context.gpu import op_precision as gpu

from dlperf_sdk.worker.unsupported import Unsupported

TARGETS = {"cpu": "CPU", "cuda": "GPU", "npu": "Ascend"}
"""Kind of device → MindSpore's name of it."""
_NEEDED = {
    "cuda": "CUDA 11.1 or 11.6 with cuDNN",
    "npu": "Huawei's CANN",
}
"""Kind of device → what MindSpore needs on the machine besides the device and its driver."""
_NARROW = {
    "cuda": (gpu.matmul_allow_tf32, gpu.conv_allow_tf32),
    "npu": (ascend.matmul_allow_hf32, ascend.conv_allow_hf32),
}
"""Kind of device → the switches of a format with fewer digits, which products of float32 may otherwise use."""


def take_device(kind, index):
    """Select a device for this process, and let it compute in full float32.

    `kind` is `cpu`, `cuda` or `npu`. `index` is the device's number among those of this kind, from 0.

    Raises:
        Unsupported: MindSpore cannot use this device on this machine.
    """
    try:
        ms.set_device(TARGETS[kind], index)
    except RuntimeError as error:
        raise Unsupported(
            "MindSpore %s cannot use %s %d: %s; install %s, or run with --device cpu"
            % (ms.__version__, TARGETS[kind], index, str(error).partition(". ")[0], _NEEDED[kind])
        ) from error
    for allow in _NARROW.get(kind, ()):
        allow(False)
