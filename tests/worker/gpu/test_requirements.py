"""Runtimes refuse too few GPUs, and GPUs without the number format of a precision."""

import pytest

from dlperf_sdk.worker.gpu.requirements import require_capability, require_gpus
from dlperf_sdk.worker.precision import Precision
from dlperf_sdk.worker.unsupported import Unsupported

FP32 = Precision("float32", "float32")
TF32 = Precision("float32", "float32", tf32=True)
BF16 = Precision("float32", "bfloat16")
FP16 = Precision("float16", "float16")


def test_too_few_gpus_are_refused(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-7")
    require_gpus("toy 1.0", 2, 2)
    with pytest.raises(Unsupported) as refusal:
        require_gpus("toy 1.0", 1, 2)
    assert str(refusal.value).startswith(
        "toy 1.0 finds 1 usable GPUs where 2 are needed (CUDA_VISIBLE_DEVICES is 'GPU-7'); check the driver"
    )


@pytest.mark.parametrize("precision, needed", [(TF32, "TF32"), (BF16, "bfloat16")])
def test_a_gpu_before_ampere_is_refused(precision, needed):
    require_capability("A100", (8, 0), precision)
    with pytest.raises(
        Unsupported,
        match=rf"^V100 has compute capability 7\.0; {needed} needs 8\.0 \(Ampere\) or later: choose fp32$",
    ):
        require_capability("V100", (7, 0), precision)


@pytest.mark.parametrize("precision", [FP32, FP16])
def test_every_gpu_has_the_other_formats(precision):
    require_capability("V100", (7, 0), precision)
